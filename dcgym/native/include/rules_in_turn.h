/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Rules that look for the server whose turn it is, or for one that has nothing to do. */
#ifndef DCGYM_RULES_IN_TURN_H
#define DCGYM_RULES_IN_TURN_H

#include "rule_views.h"

#define DCGYM_MOST_REQUESTS (1ULL << 20) /* more flows of one server count as so many */

/*
 * A position to begin with that the first member replaces. Since Linux 6.18 the verifier follows
 * both ways of an AND of a sign with a constant, such as two positions that it knows.
 */
#define DCGYM_UNKNOWN(pool) ((pool)->server[0])

/*
 * Smooth weighted round robin as nginx does it (ngx_http_upstream_round_robin.c): every server is
 * credited its weight, the one with the most credit, the first of several, gets the flow and pays
 * the sum of all weights. nginx lowers the weight of servers that fail; a balancer that sees one
 * direction has no failures to count. CPUs that choose at once may lose one another's credits:
 * these are bounded by the sum of the weights, so the shares mend themselves.
 */
DCGYM_INLINE __u32 dcgym_smooth_turn(const struct dcgym_pool_view *pool, struct dcgym_turn *turns) {
    const __u64 lowest = 0 - (1ULL << 61);
    __u64 best = DCGYM_UNKNOWN(pool), best_credit = lowest, sum = 0;

    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= pool->n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u64 member = dcgym_less(i, pool->n);
            const __u64 weight = dcgym_pick(member, pool->weight[i], 0);
            struct dcgym_turn *own = &turns[dcgym_rule_bound(pool->server[i])];
            const __u64 credit = (__u64)own->credit + weight;
            const __u64 more = dcgym_less(best_credit, credit) & member;

            own->credit = (__s64)credit;
            sum += weight;
            best = dcgym_pick(more, i, best);
            best_credit = dcgym_pick(more, credit, best_credit);
        }
    }
    turns[dcgym_rule_bound(pool->server[dcgym_rule_bound((__u32)best)])].credit =
        (__s64)(best_credit - sum);
    return (__u32)best;
}

/* Whether all servers of a pool have the same weight. */
DCGYM_INLINE __u32 dcgym_same_weights(const struct dcgym_pool_view *pool) {
    __u64 others = 0;

    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= pool->n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++)
            others |= (pool->weight[i] ^ pool->weight[0]) & (0 - dcgym_less(i, pool->n));
    }
    return others == 0;
}

/*
 * Envoy's weighted least request: weighted round robin by w / (q + 1), its bias of 1, in the order
 * of deadlines. A server's next turn is (q + 1) / w after the one that it has now, with q as it is
 * now, the new flow not counted; the first of several has it. A server that was away has its turn
 * at once, one turn and no more.
 */
DCGYM_INLINE __u32 dcgym_request_turn(const struct dcgym_pool_view *pool,
                                      struct dcgym_state_view *state) {
    const __u64 n = dcgym_unbounded(pool->n, *state->random); /* a loop came before */
    __u64 best = DCGYM_UNKNOWN(pool), earliest = 1ULL << 62, queue;
    struct dcgym_turn *own;
    __u32 server;

    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u64 deadline = state->turns[dcgym_rule_bound(pool->server[i])].deadline;
            const __u64 earlier = dcgym_less(deadline, earliest) & dcgym_less(i, n);

            best = dcgym_pick(earlier, i, best);
            earliest = dcgym_pick(earlier, deadline, earliest);
        }
    }
    server = dcgym_rule_bound(pool->server[dcgym_rule_bound((__u32)best)]);
    own = &state->turns[server];
    queue = state->ongoing[server];
    if (queue > DCGYM_MOST_REQUESTS)
        queue = DCGYM_MOST_REQUESTS;
    if (*state->clock < earliest)
        *state->clock = earliest;
    own->deadline =
        *state->clock + ((queue + 1) << 40) / pool->weight[dcgym_rule_bound((__u32)best)];
    return (__u32)best;
}

/* One of the servers without a flow, each with the same chance; one of all if there is none. */
DCGYM_INLINE __u32 dcgym_idle(const struct dcgym_pool_view *pool, const __u32 *queue,
                              __u64 *random) {
    __u64 n = pool->n, idle = 0, found = 0, rank;

    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++)
            idle += dcgym_less(queue[dcgym_rule_bound(pool->server[i])], 1) & dcgym_less(i, n);
    }
    if (!idle)
        return dcgym_below(random, pool->n);
    n = dcgym_unbounded(n, *random);
    idle = dcgym_unbounded(idle, *random);
    /* Counts down through the idle ones to the one that was drawn; below 0 it is behind. */
    rank = dcgym_below(random, (__u32)idle);
    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u64 is_idle =
                dcgym_less(queue[dcgym_rule_bound(pool->server[i])], 1) & dcgym_less(i, n);

            found = dcgym_pick(is_idle & (((rank - 1) & ~rank) >> 63), i, found);
            rank -= is_idle;
        }
    }
    return (__u32)found;
}

#endif
