/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Rules that live on what balancers are told: answers to probes, messages of idle servers, response
 * times, reports of load. In whole numbers, as all rules.
 *
 * Sources: peak-EWMA as in Finagle and Tower (peak_ewma.rs); C3: Suresh, Canini, Schmid, Feldmann,
 * NSDI 2015; join-idle-queue: Lu et al. 2011.
 */
#ifndef DCGYM_RULES_TOLD_H
#define DCGYM_RULES_TOLD_H

#include "elapsed.h"
#include "prequal.h"
#include "rules_in_turn.h"

#define DCGYM_FRACTION_SHIFT 32 /* fractions are of 2^32 */

#define DCGYM_PEAK_TAU_NS 10000000000ULL   /* Linkerd's proxy */
#define DCGYM_PEAK_FIRST_NS 30000000ULL    /* likewise: of a server that joined; decays as all do */
#define DCGYM_PEAK_LONGEST_NS (1ULL << 38) /* 275 s; what takes longer takes as long */
#define DCGYM_PEAK_MOST_PENDING (1ULL << 16)
#define DCGYM_PEAK_SHIFT 8 /* estimates and costs are in ns / 2^8 */

#define DCGYM_C3_QUEUE_SHIFT 8                                /* queues are in flows / 2^8 */
#define DCGYM_C3_MOST_QUEUE (1024ULL << DCGYM_C3_QUEUE_SHIFT) /* so the cube of a queue fits */
#define DCGYM_C3_LONGEST_NS (1ULL << 32)                      /* of service */
#define DCGYM_C3_OLD 1 /* weight of the average so far; the newest sample has 9: our choice */
#define DCGYM_C3_NEW 9

/* What a balancer has heard of one server. */
struct dcgym_heard {
    __u64 idle;         /* number of its message that it is idle */
    __u64 peak;         /* peak-EWMA of the response times, in ns / 2^8 */
    __u64 peak_time_ns; /* of the last sample, or of joining */
    __u64 response_ns;  /* C3's average; 0 before the first */
    __u64 service_ns;   /* time between two ends of a busy server, C3's average */
    __u64 queue;        /* reported flows, C3's average */
};

/* Messages of idle servers: the first of those above `taken` is next. */
struct dcgym_idle_queue {
    __u64 last;
    __u64 taken;
};

/* The servers that a balancer had in its pool when it chose last: what is not among them joined. */
struct dcgym_met {
    __u64 since_ns; /* it has forgotten nobody since */
    __u64 members[DCGYM_SET_WORDS(DCGYM_RULE_SERVERS)];
};

struct dcgym_told_view {
    struct dcgym_heard *heard; /* by server number */
    struct dcgym_idle_queue *idle;
    struct dcgym_prequal *prequal;
    const struct dcgym_prequal_places *places;
    const __u64 *members; /* set of the servers in the pool */
    struct dcgym_met *met;
    __u64 c3_reset_ns; /* period after which c3-rank forgets all that it was told; 0: never */
    __u32 balancers;
};

DCGYM_INLINE int dcgym_forgets(const struct dcgym_met *met, __u64 reset_ns, __u64 now_ns) {
    return reset_ns && now_ns > met->since_ns + reset_ns;
}

/* Whether the pool is the one of the last choice, and nothing is to be forgotten. */
DCGYM_INLINE int dcgym_has_met(const struct dcgym_met *met, const __u64 *members, __u64 reset_ns,
                               __u64 now_ns) {
    __u64 differs = (__u64)dcgym_forgets(met, reset_ns, now_ns);

    for (__u32 i = 0; i < DCGYM_SET_WORDS(DCGYM_RULE_SERVERS); i++)
        differs |= met->members[i] ^ members[i];
    return !differs;
}

/*
 * Servers join: whatever was heard of them before is forgotten, and they count as idle. With the
 * period of a reset all join again after each.
 */
DCGYM_INLINE void dcgym_meet(struct dcgym_met *met, struct dcgym_heard *heard,
                             struct dcgym_idle_queue *idle, const __u64 *members, __u64 reset_ns,
                             __u64 now_ns) {
    const __u64 kept = dcgym_forgets(met, reset_ns, now_ns) ? 0 : ~0ULL;

    if (!kept || !met->since_ns)
        met->since_ns = now_ns;
    for (__u32 i = 0; i < DCGYM_RULE_SERVERS; i++) {
        const __u64 joined = members[i >> 6] & ~(met->members[i >> 6] & kept);
        struct dcgym_heard *server = &heard[i];

        if (!(joined >> (i & 63) & 1))
            continue;
        server->idle = ++idle->last;
        server->peak = DCGYM_PEAK_FIRST_NS << DCGYM_PEAK_SHIFT;
        server->peak_time_ns = now_ns;
        server->response_ns = server->service_ns = server->queue = 0;
    }
    for (__u32 i = 0; i < DCGYM_SET_WORDS(DCGYM_RULE_SERVERS); i++)
        met->members[i] = members[i];
}

/* value * fraction / 2^32, for a fraction of at most 1. */
DCGYM_INLINE __u64 dcgym_scaled(__u64 value, __u64 fraction) {
    return (value >> 32) * fraction + ((value & 0xffffffff) * fraction >> DCGYM_FRACTION_SHIFT);
}

/*
 * exp(-t / tau) of 2^32, as 2^-z: whole part of z by a shift, the rest by the Taylor series of 2^-f
 * up to f^10, whose coefficients are ln(2)^k / k!. Off by less than 2^-30 of 1.
 */
DCGYM_INLINE __u64 dcgym_peak_decay(__u64 elapsed_ns) {
    const __u64 one = 1ULL << DCGYM_FRACTION_SHIFT, log2_e_less_1 = 1901360723;
    __u64 z, f, sum = 30;

    if (elapsed_ns >= DCGYM_PEAK_LONGEST_NS)
        return 0;
    z = (elapsed_ns << 24) / (DCGYM_PEAK_TAU_NS >> 8);
    z += dcgym_scaled(z, log2_e_less_1);
    f = z & 0xffffffff;
    sum = 437 - (sum * f >> 32);
    sum = 5676 - (sum * f >> 32);
    sum = 65510 - (sum * f >> 32);
    sum = 661577 - (sum * f >> 32);
    sum = 5726720 - (sum * f >> 32);
    sum = 41309550 - (sum * f >> 32);
    sum = 238388332 - (sum * f >> 32);
    sum = 1031764991 - (sum * f >> 32);
    sum = 2977044472 - (sum * f >> 32);
    return (one - (sum * f >> 32)) >> (z >> 32);
}

/* Peaks count at once, what is below them decays in. */
DCGYM_INLINE void dcgym_peak_sample(struct dcgym_heard *heard, __u64 value_ns, __u64 now_ns) {
    const __u64 mean = heard->peak;
    __u64 value = value_ns < DCGYM_PEAK_LONGEST_NS ? value_ns : DCGYM_PEAK_LONGEST_NS;

    value <<= DCGYM_PEAK_SHIFT;
    if (value < mean)
        value += dcgym_scaled(mean - value,
                              dcgym_peak_decay(dcgym_elapsed_ns(now_ns, heard->peak_time_ns)));
    heard->peak = value;
    heard->peak_time_ns = now_ns;
}

/* A look decays the estimate towards 0, and the next sample meets what is left, as in Tower. */
DCGYM_INLINE __u64 dcgym_peak_cost(struct dcgym_heard *heard, __u64 pending, __u64 now_ns) {
    dcgym_peak_sample(heard, 0, now_ns);
    if (pending > DCGYM_PEAK_MOST_PENDING)
        pending = DCGYM_PEAK_MOST_PENDING;
    return heard->peak * (pending + 1);
}

/* Position of the candidate with the lower cost; they are exchangeable. */
DCGYM_INLINE __u32 dcgym_rule_peak_ewma(const struct dcgym_pool_view *pool,
                                        struct dcgym_heard *heard, const __u32 *ongoing,
                                        __u64 *random, __u64 now_ns) {
    __u64 cost_a, cost_b;
    __u32 a, b, first, second;

    dcgym_two_of(random, pool->n, &a, &b);
    a = dcgym_rule_bound(a);
    b = dcgym_rule_bound(b);
    first = dcgym_rule_bound(pool->server[a]);
    second = dcgym_rule_bound(pool->server[b]);
    cost_a = dcgym_peak_cost(&heard[first], ongoing[first], now_ns);
    cost_b = dcgym_peak_cost(&heard[second], ongoing[second], now_ns);
    return cost_b < cost_a ? b : a;
}

DCGYM_INLINE __u64 dcgym_c3_blend(__u64 mean, __u64 value) {
    return (DCGYM_C3_OLD * mean + DCGYM_C3_NEW * value) / (DCGYM_C3_OLD + DCGYM_C3_NEW);
}

DCGYM_INLINE void dcgym_c3_respond(struct dcgym_heard *heard, __u64 value_ns) {
    heard->response_ns =
        heard->response_ns ? dcgym_c3_blend(heard->response_ns, value_ns) : value_ns;
}

DCGYM_INLINE void dcgym_c3_report(struct dcgym_heard *heard, __u32 flows, __u64 service_ns) {
    heard->queue = dcgym_c3_blend(heard->queue, (__u64)flows << DCGYM_C3_QUEUE_SHIFT);
    heard->service_ns =
        heard->service_ns ? dcgym_c3_blend(heard->service_ns, service_ns) : service_ns;
}

/*
 * R - s + q^3 s with q = 1 + n o + Q, for n balancers, o own flows, Q reported ones; and
 * DCGYM_C3_LONGEST_NS, so that it is above 0.
 */
DCGYM_APART __u64 dcgym_c3_score(const struct dcgym_heard *heard, __u64 ongoing, __u64 balancers) {
    __u64 queue, service_ns, response_ns, cube;

    if (!heard)
        return 0;
    queue = ((1 + ongoing * balancers) << DCGYM_C3_QUEUE_SHIFT) + heard->queue;
    service_ns = heard->service_ns;
    response_ns = heard->response_ns;
    if (queue > DCGYM_C3_MOST_QUEUE)
        queue = DCGYM_C3_MOST_QUEUE;
    if (service_ns > DCGYM_C3_LONGEST_NS)
        service_ns = DCGYM_C3_LONGEST_NS;
    if (response_ns > DCGYM_PEAK_LONGEST_NS)
        response_ns = DCGYM_PEAK_LONGEST_NS;
    cube = queue * queue * queue; /* in 2^-24 */
    return response_ns + DCGYM_C3_LONGEST_NS - service_ns + (cube >> 24) * service_ns +
           ((cube >> 8 & 0xffff) * service_ns >> 16);
}

/* Position of the least score; of several each with the same chance. */
DCGYM_INLINE __u32 dcgym_rule_c3(const struct dcgym_pool_view *pool,
                                 const struct dcgym_heard *heard, const __u32 *ongoing,
                                 __u64 balancers, __u64 *random) {
    __u64 best = DCGYM_UNKNOWN(pool), least = 1ULL << 63, ties = 0, n = pool->n, rank;

    least--;
    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u32 server = dcgym_rule_bound(pool->server[i]);
            const __u64 score = dcgym_c3_score(&heard[server], ongoing[server], balancers);
            const __u64 member = dcgym_less(i, n), less = dcgym_less(score, least) & member;

            ties = dcgym_pick(less, 1, ties + (dcgym_same(score, least) & member));
            best = dcgym_pick(less, i, best);
            least = dcgym_pick(less, score, least);
        }
    }
    if (ties < 2)
        return (__u32)best;
    n = dcgym_unbounded(n, *random);
    /* Counts down through the ties to the one that was drawn; below 0 it is behind. */
    rank = dcgym_below(random, (__u32)ties);
    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u32 server = dcgym_rule_bound(pool->server[i]);
            const __u64 score = dcgym_c3_score(&heard[server], ongoing[server], balancers);
            const __u64 same = dcgym_same(score, least) & dcgym_less(i, n);

            best = dcgym_pick(same & (((rank - 1) & ~rank) >> 63), i, best);
            rank -= same;
        }
    }
    return (__u32)best;
}

/* A server says that it is idle; it stands once in the queue. */
DCGYM_INLINE void dcgym_note_idle(struct dcgym_idle_queue *idle, struct dcgym_heard *heard) {
    if (heard->idle <= idle->taken)
        heard->idle = ++idle->last;
}

/*
 * Position of the first server that said it is idle, else any. The messages before it, of servers
 * that left, are forgotten.
 */
DCGYM_INLINE __u32 dcgym_rule_idle_queue(const struct dcgym_pool_view *pool,
                                         struct dcgym_idle_queue *idle,
                                         const struct dcgym_heard *heard, __u64 *random) {
    const __u64 none = 1ULL << 62;
    __u64 best = DCGYM_UNKNOWN(pool), first = none;

    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= pool->n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u64 number = heard[dcgym_rule_bound(pool->server[i])].idle;
            const __u64 earlier = dcgym_less(idle->taken, number) & dcgym_less(number, first) &
                                  dcgym_less(i, pool->n);

            best = dcgym_pick(earlier, i, best);
            first = dcgym_pick(earlier, number, first);
        }
    }
    if (first == none) {
        idle->taken = idle->last;
        return dcgym_below(random, pool->n);
    }
    idle->taken = first;
    return (__u32)best;
}

#endif
