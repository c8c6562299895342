/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Prequal's pool of answers to probes (Wydrowski, Kleinberg, Rumble, Archer, NSDI 2024): which
 * answer wins, which ones go. Compiled into the BPF balancer, under a spin lock, and into the twin:
 * no memory of its own, every loop bounded. Answers lie in any order; `order` tells their age.
 */
#ifndef DCGYM_PREQUAL_H
#define DCGYM_PREQUAL_H

#include "rule_views.h"

#define DCGYM_PREQUAL_ANSWERS 16 /* a power of two */
#define DCGYM_PREQUAL_STRIDE 8   /* as DCGYM_RULE_STRIDE */
#define DCGYM_PREQUAL_AGE_NS 1000000000ULL
#define DCGYM_PREQUAL_HOT (1ULL << 62)          /* above every latency */
#define DCGYM_PREQUAL_MOST_IN_FLIGHT (1U << 30) /* more is nonsense: no server has it */

struct dcgym_answer {
    __u64 order;
    __u64 received_ns;
    __u64 latency_ns; /* below DCGYM_PREQUAL_HOT; 0: the server knows none of late */
    __u32 in_flight;
    __u16 server;
    __u16 uses; /* that are left */
};

struct dcgym_prequal {
    __u64 last_order;
    __u32 n;
    __u32 worst_next; /* whether the next removal is of the worst answer, not of the oldest */
    struct dcgym_answer answers[DCGYM_PREQUAL_ANSWERS];
};

/* By the number of servers with answers: rank of the threshold of hot among them, from 0. */
struct dcgym_prequal_places {
    __u8 rank[2 * DCGYM_PREQUAL_ANSWERS];
};

/* How often an answer is used: `uses`, and once more with the chance more / 2^53. */
struct dcgym_prequal_budget {
    __u64 more;
    __u32 uses;
    __u32 capacity; /* answers that the pool holds */
};

DCGYM_INLINE __u32 dcgym_prequal_bound(__u32 place) {
    return place & (DCGYM_PREQUAL_ANSWERS - 1);
}

/* The last answer takes the place of the one that goes. */
DCGYM_INLINE void dcgym_prequal_drop(struct dcgym_prequal *pool, __u32 place) {
    const __u32 last = dcgym_prequal_bound(pool->n - 1);

    pool->answers[dcgym_prequal_bound(place)] = pool->answers[last];
    pool->n = last;
}

/* Bit i: the pool has no newer answer of the server of answer i. */
DCGYM_INLINE __u32 dcgym_prequal_newest(const struct dcgym_prequal *pool) {
    const __u64 n = pool->n;
    __u32 newest = 0;

    for (__u32 i = 0; i < DCGYM_PREQUAL_ANSWERS; i++) {
        const __u64 server = pool->answers[i].server, order = pool->answers[i].order;
        __u64 newer = 0;

        for (__u32 start = 0; start < DCGYM_PREQUAL_ANSWERS; start += DCGYM_PREQUAL_STRIDE) {
            if (start >= n)
                break;
            for (__u32 j = start; j < start + DCGYM_PREQUAL_STRIDE; j++)
                newer |= dcgym_same(server, pool->answers[j].server) &
                         dcgym_less(order, pool->answers[j].order) & dcgym_less(j, n);
        }
        newest |= (__u32)((1 - newer) & dcgym_less(i, n)) << i;
    }
    return newest;
}

/*
 * Requests in flight above which a server is hot: a quantile of the servers' newest answers, so
 * that none counts twice. The pool must not be empty.
 */
DCGYM_INLINE __u64 dcgym_prequal_threshold(const struct dcgym_prequal *pool,
                                           const struct dcgym_prequal_places *places) {
    const __u32 newest = dcgym_prequal_newest(pool);
    __u64 found = 0, n = 0, rank;

    for (__u32 i = 0; i < DCGYM_PREQUAL_ANSWERS; i++)
        n += newest >> i & 1;
    rank = places->rank[n & (2 * DCGYM_PREQUAL_ANSWERS - 1)];
    for (__u32 i = 0; i < DCGYM_PREQUAL_ANSWERS; i++) {
        const __u64 load = pool->answers[i].in_flight;
        __u64 below = 0, same = 0, is_it;

        for (__u32 start = 0; start < DCGYM_PREQUAL_ANSWERS; start += DCGYM_PREQUAL_STRIDE) {
            if (start >= pool->n)
                break;
            for (__u32 j = start; j < start + DCGYM_PREQUAL_STRIDE; j++) {
                const __u64 other = pool->answers[j].in_flight, counts = newest >> j & 1;

                below += dcgym_less(other, load) & counts;
                same += dcgym_same(other, load) & counts;
            }
        }
        is_it = (newest >> i & 1) & (1 - dcgym_less(rank, below)) & dcgym_less(rank, below + same);
        found = dcgym_pick(is_it, load, found);
    }
    return found;
}

/* Cold answers by their latency, then hot ones by their requests in flight. */
DCGYM_INLINE __u64 dcgym_prequal_key(const struct dcgym_answer *answer, __u64 threshold) {
    return dcgym_pick(dcgym_less(threshold, answer->in_flight),
                      DCGYM_PREQUAL_HOT | answer->in_flight, answer->latency_ns);
}

/* Place of the answer with the least key, or the greatest; of several the oldest. */
DCGYM_INLINE __u32 dcgym_prequal_extreme(const struct dcgym_prequal *pool, __u64 threshold,
                                         __u64 greatest) {
    /* An unknown number, as DCGYM_UNKNOWN is; the first answer takes its place. */
    __u64 best = pool->answers[0].server, best_key = threshold, best_order = threshold;

    for (__u32 i = 0; i < DCGYM_PREQUAL_ANSWERS; i++) {
        const struct dcgym_answer *answer = &pool->answers[i];
        const __u64 key = dcgym_prequal_key(answer, threshold);
        __u64 beats = dcgym_pick(greatest, dcgym_less(best_key, key), dcgym_less(key, best_key));

        beats |= dcgym_same(key, best_key) & dcgym_less(answer->order, best_order);
        beats = (beats | dcgym_less(i, 1)) & dcgym_less(i, pool->n);
        best = dcgym_pick(beats, i, best);
        best_key = dcgym_pick(beats, key, best_key);
        best_order = dcgym_pick(beats, answer->order, best_order);
    }
    return (__u32)best;
}

DCGYM_INLINE __u32 dcgym_prequal_oldest(const struct dcgym_prequal *pool) {
    __u64 oldest = pool->answers[0].server, order = oldest;

    for (__u32 i = 0; i < DCGYM_PREQUAL_ANSWERS; i++) {
        const __u64 older =
            (dcgym_less(pool->answers[i].order, order) | dcgym_less(i, 1)) & dcgym_less(i, pool->n);

        oldest = dcgym_pick(older, i, oldest);
        order = dcgym_pick(older, pool->answers[i].order, order);
    }
    return (__u32)oldest;
}

/* Whether a pool may answer with it: it is neither old, nor used up, nor of a server that left. */
DCGYM_INLINE __u64 dcgym_prequal_holds(const struct dcgym_answer *answer, const __u64 *members,
                                       __u64 now_ns) {
    const __u64 limit_ns = answer->received_ns + DCGYM_PREQUAL_AGE_NS;

    return dcgym_less(0, answer->uses) & (1 - dcgym_less(limit_ns, now_ns)) &
           dcgym_set_has(members, answer->server);
}

DCGYM_INLINE void dcgym_prequal_forget(struct dcgym_prequal *pool, const __u64 *members,
                                       __u64 now_ns) {
    const __u64 n = pool->n;
    __u64 kept = 0;

    for (__u32 i = 0; i < DCGYM_PREQUAL_ANSWERS; i++) {
        const struct dcgym_answer answer = pool->answers[i];
        const __u64 keeps = dcgym_prequal_holds(&answer, members, now_ns) & dcgym_less(i, n) & 1;

        pool->answers[dcgym_prequal_bound((__u32)kept)] = answer;
        kept += keeps;
    }
    pool->n = (__u32)kept;
}

/*
 * A server for a request, DCGYM_NO_SERVER if fewer than two answers are left; then the removal of
 * one answer, alternately the oldest and the worst. The chosen server has one request more in
 * flight now, in all its answers.
 */
DCGYM_INLINE __u32 dcgym_prequal_choose(struct dcgym_prequal *pool,
                                        const struct dcgym_prequal_places *places,
                                        const __u64 *members, __u64 now_ns) {
    __u32 chosen = DCGYM_NO_SERVER, place = 0;

    dcgym_prequal_forget(pool, members, now_ns);
    if (pool->n == 0)
        return DCGYM_NO_SERVER;
    if (pool->n >= 2) {
        place = dcgym_prequal_bound(
            dcgym_prequal_extreme(pool, dcgym_prequal_threshold(pool, places), 0));
        chosen = pool->answers[place].server;
        pool->answers[place].uses--;
        for (__u32 i = 0; i < DCGYM_PREQUAL_ANSWERS; i++)
            pool->answers[i].in_flight += (__u32)dcgym_same(pool->answers[i].server, chosen);
    }
    place = pool->worst_next ? dcgym_prequal_extreme(pool, dcgym_prequal_threshold(pool, places), 1)
                             : dcgym_prequal_oldest(pool);
    dcgym_prequal_drop(pool, place);
    pool->worst_next = !pool->worst_next;
    return chosen;
}

/*
 * Takes an answer in; where the pool is full, the oldest gives way. A latency that is not known
 * counts as that of an answer in the pool, by 32 random bits: a server that nobody has heard of is
 * as good as any. At 0 it would draw the flows of all balancers until it is hot.
 */
DCGYM_INLINE void dcgym_prequal_insert(struct dcgym_prequal *pool, __u32 capacity,
                                       const struct dcgym_answer *answer, __u32 random) {
    __u64 latency_ns = answer->latency_ns;
    __u32 place;

    if (latency_ns == 0 && pool->n)
        latency_ns = pool->answers[dcgym_prequal_bound(dcgym_scale(random, pool->n))].latency_ns;
    if (pool->n >= capacity)
        dcgym_prequal_drop(pool, dcgym_prequal_oldest(pool));
    place = dcgym_prequal_bound(pool->n);
    pool->answers[place] = *answer;
    pool->answers[place].latency_ns = latency_ns;
    pool->answers[place].order = ++pool->last_order;
    pool->n = place + 1;
}

#endif
