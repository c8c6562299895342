/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Copa: the rate 1 / (delta times the queueing delay), in its default mode.
 *
 * Source: V. Arun and H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the
 * Internet", NSDI 2018. From mvfst's Copa.cpp are the velocity that a sudden turn resets, and that
 * there is no competitive mode: beside CUBIC it starves. Where the two differ (mvfst's default of
 * delta is 0.05, its queueing delay that of the newest RTT, its pacing by the smoothed one), this
 * is the paper's. Ours:
 *   - the standing RTT is the least of the present and the last half of a smoothed RTT;
 *   - the least RTT is that of the present and the last period of 5 s;
 *   - the window grows only where it is what limits the sender;
 *   - no step is larger than what was acknowledged, so that a round trip at most doubles the window
 *     or takes it all but 2 packets, whatever the velocity;
 *   - a timeout halves the window, other losses end slow start alone;
 *   - the window of before is back if a loss or a timeout was none.
 */
#ifndef DCGYM_COPA_H
#define DCGYM_COPA_H

#include "window_control.h"

#define DCGYM_COPA_INVERSE_DELTA 2u /* delta = 1/2 */
#define DCGYM_COPA_PERIOD_US 5000000u
#define DCGYM_COPA_ROUNDS 3u /* in one direction, before the velocity doubles */
#define DCGYM_COPA_MOST_VELOCITY 65536u
#define DCGYM_COPA_MOST_CWND_Q16 (16384u << DCGYM_CWND_BITS)

/* The least of a present and a past span of time. */
struct dcgym_copa_least {
    __u64 began_us;
    __u32 present_us;
    __u32 past_us;
};

enum dcgym_copa_direction { DCGYM_COPA_NONE, DCGYM_COPA_UP, DCGYM_COPA_DOWN };

struct dcgym_copa {
    struct dcgym_copa_least least, standing;
    __u32 cwnd_q16;
    __u32 prior_q16;
    __u32 round_cwnd_q16; /* at the begin of the round trip */
    __u32 round_end_seq;
    __u32 standing_us;
    __u32 velocity;
    __u32 direction;
    __u32 rounds;       /* in this direction after the first */
    __u32 is_timed_out; /* nothing was acknowledged since */
    __u32 in_slow_start;
};

DCGYM_INLINE void dcgym_copa_begin(struct dcgym_copa *copa, __u32 cwnd_packets) {
    *copa = (struct dcgym_copa){};
    copa->cwnd_q16 = cwnd_packets << DCGYM_CWND_BITS;
    copa->velocity = 1;
    copa->in_slow_start = 1;
}

DCGYM_INLINE __u32 dcgym_copa_note(struct dcgym_copa_least *least, __u64 now_us, __u32 rtt_us,
                                   __u32 span_us) {
    if (!least->present_us) {
        least->past_us = rtt_us;
        least->present_us = rtt_us;
        least->began_us = now_us;
    } else if (now_us - least->began_us >= span_us) {
        least->past_us = least->present_us;
        least->present_us = rtt_us;
        least->began_us = now_us;
    }
    least->present_us = dcgym_least(least->present_us, rtt_us);
    return dcgym_least(least->present_us, least->past_us);
}

DCGYM_INLINE void dcgym_copa_begin_round(struct dcgym_copa *copa, const struct dcgym_cc_ack *ack) {
    copa->round_end_seq = ack->nxt_seq;
    copa->round_cwnd_q16 = copa->cwnd_q16;
}

DCGYM_INLINE void dcgym_copa_turn(struct dcgym_copa *copa, __u32 direction) {
    copa->direction = direction;
    copa->rounds = 0;
    copa->velocity = 1;
}

/* Once a round trip: the velocity doubles after three more in one direction. */
DCGYM_INLINE void dcgym_copa_end_round(struct dcgym_copa *copa, const struct dcgym_cc_ack *ack) {
    __u32 direction = copa->cwnd_q16 > copa->round_cwnd_q16 ? DCGYM_COPA_UP : DCGYM_COPA_DOWN;

    if (copa->round_cwnd_q16 && (__s32)(ack->una_seq - copa->round_end_seq) < 0)
        return;
    if (copa->round_cwnd_q16 && direction != copa->direction)
        dcgym_copa_turn(copa, direction);
    else if (copa->round_cwnd_q16 && ++copa->rounds >= DCGYM_COPA_ROUNDS)
        copa->velocity = dcgym_least(copa->velocity * 2, DCGYM_COPA_MOST_VELOCITY);
    dcgym_copa_begin_round(copa, ack);
}

/* velocity acked / (delta cwnd), at most what was acknowledged. */
DCGYM_INLINE __u32 dcgym_copa_step(const struct dcgym_copa *copa, __u32 acked_packets) {
    __u64 acked_q16 = (__u64)acked_packets << DCGYM_CWND_BITS;
    __u64 step =
        (acked_q16 * DCGYM_COPA_INVERSE_DELTA << DCGYM_CWND_BITS) / copa->cwnd_q16 * copa->velocity;

    return (__u32)(step < acked_q16 ? step : acked_q16);
}

/* A velocity that was gained in the other direction is not used in this one. */
DCGYM_INLINE void dcgym_copa_move(struct dcgym_copa *copa, const struct dcgym_cc_ack *ack,
                                  __u32 direction) {
    __u32 step;

    dcgym_copa_end_round(copa, ack);
    if (copa->velocity > 1 && copa->direction != direction) {
        dcgym_copa_turn(copa, direction);
        dcgym_copa_begin_round(copa, ack);
    }
    step = dcgym_copa_step(copa, ack->acked_packets);
    if (direction == DCGYM_COPA_UP)
        copa->cwnd_q16 = dcgym_least(copa->cwnd_q16 + step, DCGYM_COPA_MOST_CWND_Q16);
    else
        copa->cwnd_q16 = dcgym_most(copa->cwnd_q16 - dcgym_least(step, copa->cwnd_q16),
                                    DCGYM_LEAST_CWND << DCGYM_CWND_BITS);
}

DCGYM_INLINE void dcgym_copa_on_ack(struct dcgym_copa *copa, const struct dcgym_cc_ack *ack) {
    __u32 least_us, is_below;

    if (ack->acked_packets)
        copa->is_timed_out = 0;
    if (!ack->rtt_us)
        return;
    least_us = dcgym_copa_note(&copa->least, ack->now_us, ack->rtt_us, DCGYM_COPA_PERIOD_US);
    copa->standing_us =
        dcgym_copa_note(&copa->standing, ack->now_us, ack->rtt_us, ack->srtt_us / 2);
    /* cwnd / standing <= 1 / (delta queueing), without a division. */
    is_below = (__u64)copa->cwnd_q16 * (copa->standing_us - least_us) <=
               (__u64)copa->standing_us * DCGYM_COPA_INVERSE_DELTA << DCGYM_CWND_BITS;
    if (!is_below)
        copa->in_slow_start = 0;
    else if (!ack->is_limited)
        return;
    if (copa->in_slow_start)
        copa->cwnd_q16 = dcgym_least(copa->cwnd_q16 + (ack->acked_packets << DCGYM_CWND_BITS),
                                     DCGYM_COPA_MOST_CWND_Q16);
    else
        dcgym_copa_move(copa, ack, is_below ? DCGYM_COPA_UP : DCGYM_COPA_DOWN);
}

DCGYM_INLINE void dcgym_copa_on_loss(struct dcgym_copa *copa, __u64 now_us, __u32 srtt_us) {
    (void)now_us;
    (void)srtt_us;
    copa->prior_q16 = copa->cwnd_q16;
    copa->in_slow_start = 0;
}

DCGYM_INLINE void dcgym_copa_on_timeout(struct dcgym_copa *copa) {
    if (!copa->is_timed_out)
        copa->prior_q16 = copa->cwnd_q16;
    copa->is_timed_out = 1;
    copa->in_slow_start = 0;
    copa->cwnd_q16 = dcgym_most(copa->cwnd_q16 / 2, DCGYM_LEAST_CWND << DCGYM_CWND_BITS);
}

DCGYM_INLINE void dcgym_copa_undo(struct dcgym_copa *copa) {
    copa->cwnd_q16 = dcgym_most(copa->cwnd_q16, copa->prior_q16);
}

/* Paced at twice the window a standing round trip. */
DCGYM_INLINE struct dcgym_cc_decision dcgym_copa_decide(const struct dcgym_copa *copa,
                                                        __u32 mss_bytes, __u32 srtt_us) {
    struct dcgym_cc_decision decision = {};

    (void)srtt_us;
    decision.cwnd_packets = dcgym_whole_cwnd(copa->cwnd_q16);
    if (copa->standing_us)
        decision.pacing_bytes_per_s =
            dcgym_rate_of(copa->cwnd_q16, mss_bytes, copa->standing_us) * 2;
    return decision;
}

#endif
