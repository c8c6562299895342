/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in whole numbers, as rules.h compares them, on the slow side. What is a ratio of whole
 * numbers stays one, so that rules see ties where there are ties: 1/3 : 1 becomes 1 : 3, times what
 * fits.
 */
#ifndef DCGYM_FIXED_WEIGHTS_H
#define DCGYM_FIXED_WEIGHTS_H

#include "rules.h"

/* Ratios of whole numbers up to this are recognised in float32 too, larger ones in float64 only. */
#define DCGYM_SMALL_RATIO 256
#define DCGYM_FLOAT32_ERROR 0x1p-21
#define DCGYM_FLOAT64_ERROR 0x1p-50
#define DCGYM_RATIO_TERMS 40  /* convergents grow at least like Fibonacci's numbers */
#define DCGYM_WEIGHT_GROUPS 2 /* what is in none of them is rounded by itself */

struct dcgym_ratio {
    __u32 above, below; /* below 0: none was found */
};

/*
 * The simplest ratio of whole numbers that x, above 0 and at most 1, stands for: the first
 * convergent of its continued fraction within the error of a floating-point number, if its
 * denominator is at most `limit`, up to 2^24.
 */
static inline struct dcgym_ratio dcgym_ratio_of(double x, __u32 limit) {
    struct dcgym_ratio found = {0, 0};
    /* Whole numbers below 2^53. */
    double above[2] = {0, 1}, below[2] = {1, 0}, rest = x;

    for (__u32 i = 0; i < DCGYM_RATIO_TERMS && rest <= DCGYM_MAX_WEIGHT; i++) {
        const double whole = (double)(__s32)rest;
        const double p = whole * above[1] + above[0], q = whole * below[1] + below[0];
        const double error = p - q * x;
        const double allowed =
            q * x * (q <= DCGYM_SMALL_RATIO ? DCGYM_FLOAT32_ERROR : DCGYM_FLOAT64_ERROR);

        if (q > limit)
            break;
        if (-allowed <= error && error <= allowed) {
            found.above = (__u32)p;
            found.below = (__u32)q;
            break;
        }
        above[0] = above[1];
        above[1] = p;
        below[0] = below[1];
        below[1] = q;
        rest = 1 / (rest - whole);
    }
    return found;
}

/* The least common multiple; both are at most 2^24. */
static inline __u64 dcgym_common_multiple(__u64 a, __u64 b) {
    __u64 divisor = a, rest = b;

    while (rest) {
        const __u64 next = divisor % rest;

        divisor = rest;
        rest = next;
    }
    return a / divisor * b;
}

/*
 * Gives weights that have no number yet theirs, as far as they are to the largest of them as whole
 * numbers with a common multiple up to `limit`; the largest gets about `top`.
 */
static inline void dcgym_fix_group(const double *weights, __u32 n, __u32 largest, __u32 top,
                                   __u32 limit, __u32 *fixed) {
    const struct dcgym_ratio none = {0, 0};
    struct dcgym_ratio ratio[DCGYM_RULE_SERVERS];
    __u64 multiple = 1, unit;

    for (__u32 i = 0; i < n; i++)
        ratio[i] = fixed[i] ? none : dcgym_ratio_of(weights[i] / weights[largest], limit);
    /* Simple ratios first: their ties are those that happen. */
    for (int small = 1; small >= 0; small--) {
        for (__u32 i = 0; i < n; i++) {
            const __u32 below = ratio[i].below;
            __u64 both;

            if (below == 0 || (below <= DCGYM_SMALL_RATIO) != small)
                continue;
            both = dcgym_common_multiple(multiple, below);
            if (both <= limit)
                multiple = both;
            else
                ratio[i].below = 0;
        }
    }
    unit = (top + multiple / 2) / multiple;
    if (unit * multiple > DCGYM_MAX_WEIGHT)
        unit--;
    for (__u32 i = 0; i < n; i++)
        if (ratio[i].below)
            fixed[i] = (__u32)(multiple / ratio[i].below * ratio[i].above * unit);
}

/*
 * Scales weights above 0, whose ratios are at most DCGYM_MAX_WEIGHT, to whole numbers up to
 * DCGYM_MAX_WEIGHT. Ratios of whole numbers to the largest weight are kept exactly, as far as their
 * common multiple fits; then such ratios to the largest of those left over, their unit being
 * rounded (by at most 2^-13 of it, where one of the ratios is not 1). What is left then is rounded
 * to 2^-24 of the largest.
 */
static inline void dcgym_fixed_weights(const double *weights, __u32 n, __u32 *fixed) {
    __u32 first = 0;

    for (__u32 i = 0; i < n; i++)
        fixed[i] = 0;
    for (__u32 group = 0; group <= DCGYM_WEIGHT_GROUPS; group++) {
        __u32 largest = n, top = DCGYM_MAX_WEIGHT, limit = DCGYM_MAX_WEIGHT;

        for (__u32 i = 0; i < n; i++)
            if (!fixed[i] && (largest == n || weights[i] > weights[largest]))
                largest = i;
        if (largest == n)
            return;
        if (group == 0) {
            first = largest;
        } else {
            top = (__u32)(weights[largest] / weights[first] * fixed[first] + 0.5);
            top = top ? top : 1;
            limit = top >> 12 ? top >> 12 : 1;
        }
        if (group < DCGYM_WEIGHT_GROUPS) {
            dcgym_fix_group(weights, n, largest, top, limit, fixed);
            continue;
        }
        for (__u32 i = 0; i < n; i++) {
            const double scaled = weights[i] / weights[first] * fixed[first] + 0.5;

            if (!fixed[i])
                fixed[i] = scaled < 1 ? 1 : (__u32)scaled;
        }
    }
}

#endif
