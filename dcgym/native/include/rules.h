/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which server gets the next flow: the one definition of the rules, compiled into the BPF balancer
 * and into the twin. Integers only, every loop bounded by a constant, no memory of its own: the
 * caller hands in views of arrays, which may lie in BPF maps.
 *
 * Ties are broken at random, each with the same chance; delays are compared exactly, so that they
 * tie where weights in whole numbers say so (fixed_weights.h). The generator (splitmix.h) is part
 * of the state, so that the same state gives the same choices everywhere.
 *
 * Sources: LSQ, SED and their two-choice forms as in Yao, "Autonomous Service Management in the
 * Cloud" (2023), chapter 6; SAPP and W-SAPP as in its chapter 4 (Charon); alias method: Walker
 * 1977.
 */
#ifndef DCGYM_RULES_H
#define DCGYM_RULES_H

#include "rule_views.h"
#include "rules_in_turn.h"
#include "rules_told.h"

enum dcgym_rule {
#define DCGYM_ROW(symbol, ...) DCGYM_RULE_##symbol,
#include "tables/balancing_rules.h"
    DCGYM_N_RULES,
};

DCGYM_INLINE __u32 dcgym_rule_ecmp(const struct dcgym_pool_view *pool, __u64 hash) {
    if (pool->n == 0)
        return DCGYM_NO_SERVER;
    return pool->server[dcgym_rule_bound(dcgym_scale((__u32)(hash >> 32), pool->n))];
}

/*
 * Position of the least (2^shift q + 1) / w, compared exactly by cross-multiplication; weight NULL
 * stands for equal weights. Weights are at most 2^24 (DCGYM_MAX_WEIGHT), the shift is 0 or 1.
 */
DCGYM_INLINE __u32 dcgym_least_delay(const struct dcgym_pool_view *pool, const __u32 *weight,
                                     const __u32 *queue, __u32 shift, __u64 *random) {
    __u64 n = pool->n, best = 0, best_q1 = 1ULL << 32, best_w = 1, ties = 0, rank;

    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u64 q1 = ((__u64)queue[dcgym_rule_bound(pool->server[i])] << shift) + 1;
            const __u64 w = weight ? weight[i] : 1, a = q1 * best_w, b = best_q1 * w;
            const __u64 member = dcgym_less(i, n), less = dcgym_less(a, b) & member;

            ties = dcgym_pick(less, 1, ties + (dcgym_same(a, b) & member));
            best = dcgym_pick(less, i, best);
            best_q1 = dcgym_pick(less, q1, best_q1);
            best_w = dcgym_pick(less, w, best_w);
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
            const __u64 q1 = ((__u64)queue[dcgym_rule_bound(pool->server[i])] << shift) + 1;
            const __u64 w = weight ? weight[i] : 1;
            const __u64 same = dcgym_same(q1 * best_w, best_q1 * w) & dcgym_less(i, n);

            best = dcgym_pick(same & (((rank - 1) & ~rank) >> 63), i, best);
            rank -= same;
        }
    }
    return (__u32)best;
}

/* The same over two candidates. They are exchangeable, so the first may win a tie. */
DCGYM_INLINE __u32 dcgym_least_delay2(const struct dcgym_pool_view *pool, const __u32 *weight,
                                      const __u32 *queue, __u64 *random) {
    __u64 delay_a, delay_b;
    __u32 a, b;

    dcgym_two_of(random, pool->n, &a, &b);
    a = dcgym_rule_bound(a);
    b = dcgym_rule_bound(b);
    delay_a = ((__u64)queue[dcgym_rule_bound(pool->server[a])] + 1) * (weight ? weight[b] : 1);
    delay_b = ((__u64)queue[dcgym_rule_bound(pool->server[b])] + 1) * (weight ? weight[a] : 1);
    return delay_b < delay_a ? b : a;
}

/* Charon's forecast of a server's score: max(0, g - v * (now - t)). */
DCGYM_INLINE __u64 dcgym_predicted_score(const struct dcgym_score *score, __u64 now_ns) {
    __u64 ticks = dcgym_elapsed_ns(now_ns, score->time_ns) >> DCGYM_TICK_SHIFT;
    __u64 done;

    if (ticks > DCGYM_MAX_TICKS)
        ticks = DCGYM_MAX_TICKS;
    done = score->speed * ticks;
    return done < score->value ? score->value - done : 0;
}

/* A server's report in its SYN-ACK: its flows, and its speed in score per tick. */
DCGYM_INLINE void dcgym_score_report(struct dcgym_score *score, __u32 flows, __u64 speed,
                                     __u64 now_ns) {
    score->value = flows * DCGYM_SCORE_ONE;
    score->speed = speed < DCGYM_MAX_SPEED ? speed : DCGYM_MAX_SPEED;
    score->time_ns = now_ns;
}

/*
 * Two candidates by the flow's hash; the lower forecast wins and counts the new flow at once, so
 * that a burst spreads before the first report. The forecast becomes the new score: adding to the
 * old one would vanish where it has run below zero.
 */
DCGYM_INLINE __u32 dcgym_rule_charon(const struct dcgym_pool_view *pool,
                                     struct dcgym_state_view *state, int by_weight, __u64 hash,
                                     __u64 now_ns) {
    __u64 bits = hash, score_a, score_b;
    __u32 a, b;

    if (by_weight) {
        a = dcgym_alias_draw(pool, dcgym_random(&bits));
        b = dcgym_alias_draw(pool, dcgym_random(&bits));
    } else {
        dcgym_two_of(&bits, pool->n, &a, &b);
    }
    a = dcgym_rule_bound(pool->server[dcgym_rule_bound(a)]);
    b = dcgym_rule_bound(pool->server[dcgym_rule_bound(b)]);
    score_a = dcgym_predicted_score(&state->score[a], now_ns);
    score_b = dcgym_predicted_score(&state->score[b], now_ns);
    if (score_b < score_a) {
        a = b;
        score_a = score_b;
    }
    state->score[a].value = score_a + DCGYM_SCORE_ONE;
    state->score[a].time_ns = now_ns;
    return a;
}

DCGYM_INLINE int dcgym_is_charon(__u32 rule) {
    return rule == DCGYM_RULE_SAPP || rule == DCGYM_RULE_WSAPP;
}

/*
 * Balanced routing: of two candidates drawn by weight, which stands for speed, the one with fewer
 * flows. The draws are alike, so the first may win a tie.
 */
DCGYM_INLINE __u32 dcgym_rule_balanced(const struct dcgym_pool_view *pool, const __u32 *queue,
                                       __u64 *random) {
    __u32 a = dcgym_alias_draw(pool, dcgym_random(random));
    __u32 b = dcgym_alias_draw(pool, dcgym_random(random));

    a = dcgym_rule_bound(pool->server[dcgym_rule_bound(a)]);
    b = dcgym_rule_bound(pool->server[dcgym_rule_bound(b)]);
    return queue[b] < queue[a] ? b : a;
}

DCGYM_INLINE __u32 dcgym_rule_round_robin(const struct dcgym_pool_view *pool, __u32 *turn) {
    const __u32 position = *turn < pool->n ? *turn : 0;

    *turn = position + 1;
    return pool->server[dcgym_rule_bound(position)];
}

/*
 * Rendezvous hashing (Thaler, Ravishankar 1998) over the pool: the server with the highest hash of
 * flow and server. When a server leaves, only its flows move; when one comes, only its share does.
 */
DCGYM_INLINE __u32 dcgym_rule_rendezvous(const struct dcgym_pool_view *pool, __u64 hash) {
    __u64 best = 0, found = DCGYM_NO_SERVER;

    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= pool->n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u64 server = pool->server[i];
            const __u64 score = (dcgym_hash(hash, server) >> 2) + 1;
            const __u64 more = dcgym_less(best, score) & dcgym_less(i, pool->n);

            best = dcgym_pick(more, score, best);
            found = dcgym_pick(more, server, found);
        }
    }
    return (__u32)found;
}

/*
 * Where a flow goes that nothing remembers, its every packet alike. ECMP and WCMP look at nothing
 * but the hash, so they place it where they placed it before; what the other rules chose is lost.
 */
DCGYM_INLINE __u32 dcgym_fallback(__u32 rule, const struct dcgym_pool_view *pool, __u64 hash) {
    if (pool->n == 0 || pool->n > DCGYM_RULE_SERVERS)
        return DCGYM_NO_SERVER;
    if (rule == DCGYM_RULE_ECMP)
        return dcgym_rule_ecmp(pool, hash);
    if (rule == DCGYM_RULE_WCMP)
        return pool->server[dcgym_rule_bound(dcgym_alias_draw(pool, hash))];
    return dcgym_rule_rendezvous(pool, hash);
}

/* Period after which a rule forgets all that it was told; 0: never. */
DCGYM_INLINE __u64 dcgym_reset_ns(__u32 rule, __u64 c3_reset_ns) {
    return rule == DCGYM_RULE_C3_RANK ? c3_reset_ns : 0;
}

/* Number of the server that a rule of messages chooses; the pool is not empty. */
DCGYM_INLINE __u32 dcgym_choose_told(__u32 rule, const struct dcgym_pool_view *pool,
                                     const struct dcgym_told_view *told, const __u32 *ongoing,
                                     __u64 *random, __u64 now_ns) {
    const __u64 reset_ns = dcgym_reset_ns(rule, told->c3_reset_ns);
    __u32 found;

    /* Prequal hears nothing of servers but what its answers say. */
    if (rule != DCGYM_RULE_PREQUAL && !dcgym_has_met(told->met, told->members, reset_ns, now_ns))
        dcgym_meet(told->met, told->heard, told->idle, told->members, reset_ns, now_ns);
    switch (rule) {
    case DCGYM_RULE_PREQUAL:
        found = dcgym_prequal_choose(told->prequal, told->places, told->members, now_ns);
        if (found != DCGYM_NO_SERVER)
            return found;
        found = dcgym_below(random, pool->n);
        break;
    case DCGYM_RULE_JIQ:
        found = dcgym_rule_idle_queue(pool, told->idle, told->heard, random);
        break;
    case DCGYM_RULE_PEAK_EWMA:
        found = dcgym_rule_peak_ewma(pool, told->heard, ongoing, random, now_ns);
        break;
    case DCGYM_RULE_C3_RANK:
        found = dcgym_rule_c3(pool, told->heard, ongoing, told->balancers, random);
        break;
    default:
        return DCGYM_NO_SERVER;
    }
    return pool->server[dcgym_rule_bound(found)];
}

DCGYM_INLINE int dcgym_is_told(__u32 rule) {
    return rule == DCGYM_RULE_PREQUAL || rule == DCGYM_RULE_JIQ || rule == DCGYM_RULE_PEAK_EWMA ||
           rule == DCGYM_RULE_C3_RANK;
}

/*
 * Number of the server for a new flow, or DCGYM_NO_SERVER if the pool is empty, the rule needs the
 * truth, or needs messages and nothing is kept of these. The hash is 64 well mixed bits of the
 * flow's five-tuple.
 */
DCGYM_INLINE __u32 dcgym_choose(__u32 rule, const struct dcgym_pool_view *pool,
                                struct dcgym_state_view *state, __u64 hash, __u64 now_ns) {
    const __u32 *queue = state->ongoing;
    __u32 position;

    if (pool->n == 0 || pool->n > DCGYM_RULE_SERVERS)
        return DCGYM_NO_SERVER;
    if (dcgym_is_told(rule))
        return state->told
                   ? dcgym_choose_told(rule, pool, state->told, queue, state->random, now_ns)
                   : DCGYM_NO_SERVER;
    switch (rule) {
    case DCGYM_RULE_ECMP:
        return dcgym_rule_ecmp(pool, hash);
    case DCGYM_RULE_ROUND_ROBIN:
        return dcgym_rule_round_robin(pool, state->turn);
    case DCGYM_RULE_SAPP:
    case DCGYM_RULE_WSAPP:
        return dcgym_rule_charon(pool, state, rule == DCGYM_RULE_WSAPP, hash, now_ns);
    case DCGYM_RULE_BALANCED:
        return dcgym_rule_balanced(pool, queue, state->random);
    case DCGYM_RULE_SMOOTH:
    case DCGYM_RULE_SMOOTH_LEARNED:
        position = dcgym_smooth_turn(pool, state->turns);
        break;
    case DCGYM_RULE_LEAST_REQUEST:
        position = dcgym_same_weights(pool) ? dcgym_least_delay2(pool, 0, queue, state->random)
                                            : dcgym_request_turn(pool, state);
        break;
    case DCGYM_RULE_OWN_IDLE:
        position = dcgym_idle(pool, queue, state->random);
        break;
    case DCGYM_RULE_RANDOM:
        position = dcgym_below(state->random, pool->n);
        break;
    case DCGYM_RULE_WCMP:
    case DCGYM_RULE_AWCMP:
        position = dcgym_alias_draw(pool, hash);
        break;
    case DCGYM_RULE_LSQ:
        position = dcgym_least_delay(pool, 0, queue, 0, state->random);
        break;
    case DCGYM_RULE_LSQ2:
        position = dcgym_least_delay2(pool, 0, queue, state->random);
        break;
    case DCGYM_RULE_SED:
    case DCGYM_RULE_WEIGHTED:
    case DCGYM_RULE_SED_HALF:
        position = dcgym_least_delay(pool, pool->weight, queue, rule == DCGYM_RULE_SED_HALF,
                                     state->random);
        break;
    case DCGYM_RULE_SED2:
    case DCGYM_RULE_WEIGHTED2:
        position = dcgym_least_delay2(pool, pool->weight, queue, state->random);
        break;
    default:
        return DCGYM_NO_SERVER;
    }
    return pool->server[dcgym_rule_bound(position)];
}

#endif
