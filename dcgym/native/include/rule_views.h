/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What the rules of rules.h look at and keep, and the steps that they share. */
#ifndef DCGYM_RULE_VIEWS_H
#define DCGYM_RULE_VIEWS_H

#include <linux/types.h>

#include "splitmix.h"

/* What has branches and is called in a loop: the verifier walks a function by itself once. */
#ifdef __bpf__
#define DCGYM_APART __attribute__((noinline))
#else
#define DCGYM_APART DCGYM_INLINE
#endif

/* Servers behind a balancer, in the kernel and in the layout of balancing.h. Their numbers fit one
 * byte, as records of placements and reports of devices have them. */
#define DCGYM_LB_SERVERS 256

/* Bound of every loop and array, a power of two; the twin compiles the rules with a larger one. */
#ifndef DCGYM_RULE_SERVERS
#define DCGYM_RULE_SERVERS DCGYM_LB_SERVERS
#endif

/* Loops look at so many servers between two looks at the pool's end, so that the verifier follows
 * few ends: columns of a pool are readable (of whatever value) up to a multiple of this. */
#define DCGYM_RULE_STRIDE 8

#define DCGYM_NO_SERVER 0xffffU

#define DCGYM_MAX_WEIGHT (1U << 24) /* weights are from 1 to this; only their ratios count */

/* Column of an alias table: itself below the threshold (of 2^32), else the other one. */
struct dcgym_alias {
    __u32 threshold;
    __u32 other; /* position in the pool */
};

/* Charon's registers of one server: score g (2^32 = one flow), speed v (score per tick), time t. */
struct dcgym_score {
    __u64 value;
    __u64 speed;
    __u64 time_ns;
};

#define DCGYM_SCORE_ONE (1ULL << 32) /* the score of one flow */
#define DCGYM_TICK_SHIFT 10          /* a tick is 1024 ns */
#define DCGYM_MAX_TICKS (1ULL << 28) /* 275 s; longer makes no difference to any score */
#define DCGYM_MAX_SPEED (1ULL << 35) /* keeps speed * ticks below 2^63 */

/* What the slow loop decides: the servers that take new flows, in columns of the same length. */
struct dcgym_pool_view {
    __u32 n;
    const __u16 *server; /* numbers of the servers */
    const __u32 *weight;
    const struct dcgym_alias *alias;
};

/* What the rules that serve servers in turn keep of one. */
struct dcgym_turn {
    __s64 credit;   /* round-robin-weighted: what it was promised and did not get, in weights */
    __u64 deadline; /* least-request: its next turn, on the clock of these */
};

struct dcgym_told_view; /* rules_told.h */

/* What the data plane keeps; `ongoing`, `score` and `turns` are by server number. */
struct dcgym_state_view {
    __u64 *random;
    __u32 *turn; /* round robin: position whose turn it is */
    const __u32 *ongoing;
    struct dcgym_score *score;
    struct dcgym_turn *turns;
    __u64 *clock;                       /* least-request: the latest deadline that was met */
    const struct dcgym_told_view *told; /* NULL: nothing is kept of messages */
};

DCGYM_INLINE __u32 dcgym_rule_bound(__u32 index) {
    return index & (DCGYM_RULE_SERVERS - 1);
}

/* Sets of servers have a bit for each number, in words of 64. */
#define DCGYM_SET_WORDS(servers) ((servers) / 64)

DCGYM_INLINE void dcgym_set_add(__u64 *set, __u32 number) {
    set[dcgym_rule_bound(number) >> 6] |= 1ULL << (number & 63);
}

DCGYM_INLINE __u64 dcgym_set_has(const __u64 *set, __u32 number) {
    return set[dcgym_rule_bound(number) >> 6] >> (number & 63) & 1;
}

/* Draws a position by weight from 64 bits: 32 choose the column, 32 decide within it. */
DCGYM_INLINE __u32 dcgym_alias_draw(const struct dcgym_pool_view *pool, __u64 bits) {
    const __u32 column = dcgym_rule_bound(dcgym_scale((__u32)(bits >> 32), pool->n));

    return (__u32)bits < pool->alias[column].threshold ? column : pool->alias[column].other;
}

/*
 * Comparisons of numbers below 2^63 that make no branch: the verifier follows both ways of every
 * branch, which in a loop over servers doubles its work at each of them.
 */
DCGYM_INLINE __u64 dcgym_less(__u64 a, __u64 b) {
    __u64 difference = a - b;

    __asm__("" : "+r"(difference)); /* else the compiler sees through it, and branches */
    return difference >> 63;
}

DCGYM_INLINE __u64 dcgym_same(__u64 a, __u64 b) {
    return 1 - dcgym_less(a, b) - dcgym_less(b, a);
}

/*
 * The same number, of which the verifier knows nothing any more: it would walk a second loop over a
 * pool once for each of the ends that the first may have come to. `any` is from memory.
 */
DCGYM_INLINE __u64 dcgym_unbounded(__u64 number, __u64 any) {
    number ^= any;
    __asm__("" : "+r"(number)); /* else the compiler sees that nothing is done */
    return number ^ any;
}

/* a where the bit is set, else b */
DCGYM_INLINE __u64 dcgym_pick(__u64 bit, __u64 a, __u64 b) {
    return b ^ ((a ^ b) & (0 - bit));
}

#endif
