/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Copa: the rate 1 / (delta times the queueing delay), in its default mode.
 *
 * Source: V. Arun and H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the
 * Internet", NSDI 2018; structure as in mvfst's Copa.cpp. delta is the paper's 0.5 (mvfst: 0.05),
 * and there is no competitive mode, as in mvfst: beside CUBIC it starves. Ours:
 *   - the standing RTT is the least of the present and the last half of a smoothed RTT;
 *   - the least RTT is that of the present and the last period of 5 s;
 *   - no step is larger than what was acknowledged, so that a round trip at most doubles the window
 *     or takes it all but 2 packets, whatever the velocity;
 *   - a timeout halves the window; other losses end slow start alone.
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

struct dcgym_copa {
    struct dcgym_copa_least least, standing;
    __u32 cwnd_q16;
    __u32 prior_q16;
    __u32 round_cwnd_q16; /* at the begin of the round trip */
    __u32 round_end_seq;
    __u32 velocity;
    __u32 rounds; /* in one direction */
    __u32 is_in_round;
    __u32 was_up;
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

/* Once a round trip: the velocity doubles after three in one direction, and is 1 after a turn. */
DCGYM_INLINE void dcgym_copa_end_round(struct dcgym_copa *copa, const struct dcgym_cc_ack *ack) {
    __u32 is_up = copa->cwnd_q16 > copa->round_cwnd_q16;

    if (copa->is_in_round && (__s32)(ack->una_seq - copa->round_end_seq) < 0)
        return;
    if (copa->is_in_round && !copa->in_slow_start) {
        copa->rounds = is_up == copa->was_up ? copa->rounds + 1 : 0;
        if (!copa->rounds)
            copa->velocity = 1;
        else if (copa->rounds >= DCGYM_COPA_ROUNDS)
            copa->velocity = dcgym_least(copa->velocity * 2, DCGYM_COPA_MOST_VELOCITY);
        copa->was_up = is_up;
    }
    copa->is_in_round = 1;
    copa->round_end_seq = ack->nxt_seq;
    copa->round_cwnd_q16 = copa->cwnd_q16;
}

/* velocity acked / (delta cwnd), at most what was acknowledged. */
DCGYM_INLINE __u32 dcgym_copa_step(const struct dcgym_copa *copa, __u32 acked_packets) {
    __u64 acked_q16 = (__u64)acked_packets << DCGYM_CWND_BITS;
    __u64 step =
        (acked_q16 * DCGYM_COPA_INVERSE_DELTA << DCGYM_CWND_BITS) / copa->cwnd_q16 * copa->velocity;

    return (__u32)(step < acked_q16 ? step : acked_q16);
}

DCGYM_INLINE void dcgym_copa_on_ack(struct dcgym_copa *copa, const struct dcgym_cc_ack *ack) {
    __u32 least_us, standing_us, step, is_below;

    if (!ack->rtt_us)
        return;
    least_us = dcgym_copa_note(&copa->least, ack->now_us, ack->rtt_us, DCGYM_COPA_PERIOD_US);
    standing_us = dcgym_copa_note(&copa->standing, ack->now_us, ack->rtt_us, ack->srtt_us / 2);
    /* cwnd / standing <= 1 / (delta queueing), without a division. */
    is_below = (__u64)copa->cwnd_q16 * (standing_us - least_us) <=
               (__u64)standing_us * DCGYM_COPA_INVERSE_DELTA << DCGYM_CWND_BITS;
    if (!is_below)
        copa->in_slow_start = 0;
    step = dcgym_copa_step(copa, ack->acked_packets);
    if (copa->in_slow_start)
        step = ack->acked_packets << DCGYM_CWND_BITS;
    if (is_below && ack->is_limited)
        copa->cwnd_q16 = dcgym_least(copa->cwnd_q16 + step, DCGYM_COPA_MOST_CWND_Q16);
    else if (!is_below)
        copa->cwnd_q16 = dcgym_most(copa->cwnd_q16 - dcgym_least(step, copa->cwnd_q16),
                                    DCGYM_LEAST_CWND << DCGYM_CWND_BITS);
    dcgym_copa_end_round(copa, ack);
}

DCGYM_INLINE void dcgym_copa_on_loss(struct dcgym_copa *copa, __u64 now_us, __u32 srtt_us) {
    (void)now_us;
    (void)srtt_us;
    copa->prior_q16 = copa->cwnd_q16;
    copa->in_slow_start = 0;
}

DCGYM_INLINE void dcgym_copa_on_timeout(struct dcgym_copa *copa) {
    copa->prior_q16 = copa->cwnd_q16;
    copa->in_slow_start = 0;
    copa->cwnd_q16 = dcgym_most(copa->cwnd_q16 / 2, DCGYM_LEAST_CWND << DCGYM_CWND_BITS);
}

DCGYM_INLINE void dcgym_copa_undo(struct dcgym_copa *copa) {
    copa->cwnd_q16 = dcgym_most(copa->cwnd_q16, copa->prior_q16);
}

/* Paced at twice the window a round trip. */
DCGYM_INLINE struct dcgym_cc_decision dcgym_copa_decide(const struct dcgym_copa *copa,
                                                        __u32 mss_bytes, __u32 srtt_us) {
    struct dcgym_cc_decision decision = {};

    decision.cwnd_packets = dcgym_whole_cwnd(copa->cwnd_q16);
    if (srtt_us)
        decision.pacing_bytes_per_s = dcgym_rate_of(copa->cwnd_q16, mss_bytes, srtt_us) * 2;
    return decision;
}

#endif
