/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Random numbers and hashes for BPF programs, the twins and the loaders alike: SplitMix64 (Steele,
 * Lea, Flood 2014). Integers only, no division, no memory of its own.
 */
#ifndef DCGYM_SPLITMIX_H
#define DCGYM_SPLITMIX_H

#include <linux/types.h>

#define DCGYM_INLINE static inline __attribute__((always_inline))

/* A hash or a draw of 64 bits from a counter: the output function of SplitMix64. */
DCGYM_INLINE __u64 dcgym_mix(__u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

DCGYM_INLINE __u64 dcgym_random(__u64 *state) {
    *state += 0x9e3779b97f4a7c15ULL;
    return dcgym_mix(*state);
}

/* Maps 32 random bits to 0 .. n-1 without a division; no value differs from 1/n by over 2^-32. */
DCGYM_INLINE __u32 dcgym_scale(__u32 bits, __u32 n) {
    return (__u32)(((__u64)bits * n) >> 32);
}

DCGYM_INLINE __u32 dcgym_below(__u64 *random, __u32 n) {
    return dcgym_scale((__u32)(dcgym_random(random) >> 32), n);
}

/* Two positions that differ, each pair with the same chance; the same position twice if n = 1. */
DCGYM_INLINE void dcgym_two_of(__u64 *random, __u32 n, __u32 *first, __u32 *second) {
    const __u64 bits = dcgym_random(random);

    *first = dcgym_scale((__u32)(bits >> 32), n);
    *second = dcgym_scale((__u32)bits, n - 1);
    if (n > 1 && *second >= *first)
        *second += 1;
}

/* A hash takes this for each word in turn, from its seed on. */
DCGYM_INLINE __u64 dcgym_hash(__u64 hash, __u64 word) {
    return dcgym_mix((hash ^ word) + 0x9e3779b97f4a7c15ULL);
}

#endif
