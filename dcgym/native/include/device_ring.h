/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the rings and tables that device_rules.h reads, on the slow side. */
#ifndef DCGYM_DEVICE_RING_H
#define DCGYM_DEVICE_RING_H

#include "device_rules.h"

/*
 * Slots of each device for weights of 0 or more, at most `limit` in all. Whole weights whose sum
 * fits are taken as they are, without their common divisor; others get their share of all slots, by
 * largest remainder. Returns the number of slots: 0 where all weights are 0.
 */
static inline __u32 dcgym_ring_slots(const double *weight, __u32 limit, __u32 *slots) {
    double sum = 0, rest[DCGYM_DEVICES];
    __u32 used = 0, divisor = 0, is_whole = 1;

    for (__u32 i = 0; i < DCGYM_DEVICES; i++) {
        sum += weight[i];
        is_whole = is_whole && weight[i] <= limit && weight[i] == (double)(__u32)weight[i];
        slots[i] = 0;
    }
    if (!(sum > 0))
        return 0;
    if (is_whole && sum <= limit) {
        for (__u32 i = 0; i < DCGYM_DEVICES; i++) {
            __u32 other = (__u32)weight[i];

            while (other) {
                const __u32 next = divisor % other;

                divisor = other;
                other = next;
            }
        }
        for (__u32 i = 0; i < DCGYM_DEVICES; i++) {
            slots[i] = (__u32)weight[i] / divisor;
            used += slots[i];
        }
        return used;
    }
    for (__u32 i = 0; i < DCGYM_DEVICES; i++) {
        const double share = weight[i] / sum * limit;

        slots[i] = (__u32)share;
        rest[i] = share - slots[i];
        used += slots[i];
    }
    for (; used < limit; used++) {
        __u32 best = 0;

        for (__u32 i = 1; i < DCGYM_DEVICES; i++)
            if (rest[i] > rest[best])
                best = i;
        slots[best]++;
        rest[best] = -1;
    }
    return used;
}

/* Spreads the slots of each device evenly over a ring, as smooth weighted round robin does. */
static inline void dcgym_ring_fill(const __u32 *slots, __u32 total, __u8 *ring) {
    __s64 credit[DCGYM_DEVICES] = {0};

    for (__u32 slot = 0; slot < total; slot++) {
        __u32 best = 0;

        for (__u32 i = 0; i < DCGYM_DEVICES; i++) {
            credit[i] += slots[i];
            if (credit[i] > credit[best])
                best = i;
        }
        credit[best] -= total;
        ring[slot] = (__u8)best;
    }
}

/* P4Mite's table: the first device that is not busy, and the processors where all are. */
static inline void dcgym_fill_by_bits(__u8 *by_bits) {
    for (__u32 bits = 0; bits < 1U << DCGYM_DEVICES; bits++) {
        __u32 device = 0;

        while (device < DCGYM_DEVICES && bits >> device & 1)
            device++;
        by_bits[bits] = (__u8)(device < DCGYM_DEVICES ? device : 0);
    }
}

#endif
