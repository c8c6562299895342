/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the alias tables that rules.h draws from (Vose 1991), on the slow side: in integers, so
 * that every builder makes the same table of the same weights. A column's chance is exact to 2^-29.
 */
#ifndef DCGYM_ALIAS_H
#define DCGYM_ALIAS_H

#include "rules.h"

#define DCGYM_ALIAS_SHIFT 29 /* the sum of 1024 weights, shifted by this, fits in 64 bits */

/* n is from 1 to DCGYM_RULE_SERVERS. */
static inline void dcgym_alias_build(const __u32 *weight, __u32 n, struct dcgym_alias *table) {
    __u64 share[DCGYM_RULE_SERVERS], total = 0;
    __u32 queue[DCGYM_RULE_SERVERS], n_small = 0, n_large = 0;

    for (__u32 i = 0; i < n; i++)
        total += weight[i];
    /* Columns below the mean wait at the front of the queue, the others at its back. */
    for (__u32 i = 0; i < n; i++) {
        share[i] = (__u64)weight[i] * n;
        if (share[i] < total)
            queue[n_small++] = i;
        else
            queue[n - ++n_large] = i;
    }
    while (n_small && n_large) {
        const __u32 small = queue[--n_small], large = queue[n - n_large];

        table[small].threshold =
            (__u32)(((share[small] << DCGYM_ALIAS_SHIFT) / total) << (32 - DCGYM_ALIAS_SHIFT));
        table[small].other = large;
        share[large] -= total - share[small];
        if (share[large] < total) {
            n_large--;
            queue[n_small++] = large;
        }
    }
    while (n_small + n_large) {
        const __u32 full = n_large ? queue[n - n_large--] : queue[--n_small];

        table[full].threshold = 0xffffffffU;
        table[full].other = full;
    }
}

#endif
