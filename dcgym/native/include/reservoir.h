/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Reservoir sampling without rejection (Yao 2023, algorithm 1): a new sample replaces a random one,
 * so that of a Poisson stream of rate r about r ((k - 1) / k)^(r n) samples of an interval survive
 * n intervals. A sample is one aligned 64-bit store: readers never see half of one.
 */
#ifndef DCGYM_RESERVOIR_H
#define DCGYM_RESERVOIR_H

#include <linux/types.h>

#define DCGYM_RESERVOIR_SLOTS 128 /* k, a power of two */

struct dcgym_sample {
    __u32 time_ms;  /* of the clock that the region's header names, at least 1; 0 = empty slot */
    __u32 value_us; /* 71 minutes at most */
};

struct dcgym_reservoir {
    struct dcgym_sample samples[DCGYM_RESERVOIR_SLOTS];
} __attribute__((aligned(8)));

static inline __attribute__((always_inline)) void
dcgym_reservoir_add(struct dcgym_reservoir *reservoir, __u32 random, __u64 now_ns, __u64 value_ns) {
    const __u64 time_ms = now_ns / 1000000, value_us = value_ns / 1000;
    struct dcgym_sample sample;

    sample.time_ms = time_ms ? (__u32)time_ms : 1;
    sample.value_us = value_us < 0xffffffffU ? (__u32)value_us : 0xffffffffU;
    reservoir->samples[random & (DCGYM_RESERVOIR_SLOTS - 1)] = sample;
}

#endif
