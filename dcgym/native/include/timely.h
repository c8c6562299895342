/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TIMELY: a rate that follows the gradient of the round trip between two thresholds.
 *
 * Source: R. Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM
 * 2015; formulas as in eRPC's timely.h, after the authors' snippet, with the weight of 0.02 and the
 * beta of 0.8 that it had before they were swept for its own cluster (0.46 and 0.26 now). Ours:
 *   - the least RTT is that of the empty network (struct dcgym_cc_options);
 *   - T_low is 50 us or 4 packets of the slowest link above it, T_high 1 ms or 40 packets: eRPC has
 *     50 us and 1 ms for links of 10 Gbit/s and more;
 *   - delta is a thousandth of the slowest link's rate, as 10 Mbit/s are of 10 Gbit/s;
 *   - the first rate is the initial window's, at most that of the slowest link, where eRPC begins
 *     with the link's. Later ones may be above it, since a path need not have the slowest link;
 *   - an RTT below the least counts, where eRPC leaves it out: token buckets pass single packets;
 *   - a loss halves the rate, once a round trip, and so does each timeout;
 *   - the rate of before is back if a loss or a timeout was none;
 *   - the window is twice the rate times the RTT, and at least 4 packets: the rate is what limits.
 */
#ifndef DCGYM_TIMELY_H
#define DCGYM_TIMELY_H

#include "window_control.h"

#define DCGYM_TIMELY_WEIGHT_Q16 1311u /* 0.02 */
#define DCGYM_TIMELY_BETA_Q16 52429u  /* 0.8 */
#define DCGYM_TIMELY_LOW_US 50u
#define DCGYM_TIMELY_LOW_PACKETS 4u
#define DCGYM_TIMELY_HIGH_US 1000u
#define DCGYM_TIMELY_HIGH_PACKETS 40u
#define DCGYM_TIMELY_DELTA_DIVISOR 1000u
#define DCGYM_TIMELY_FALLING 5u
#define DCGYM_TIMELY_MOST_FACTOR 5u
#define DCGYM_TIMELY_LEAST_RATE 28960ull /* bytes a second: 2 packets in 100 ms */
#define DCGYM_TIMELY_MOST_RATE 125000000000ull
#define DCGYM_TIMELY_HEADER_BYTES 66ull /* Ethernet, IPv4, TCP with time stamps */

struct dcgym_timely {
    __u64 rate; /* bytes a second */
    __u64 prior_rate;
    __u64 updated_us;
    __u64 reduced_us;
    __s64 difference_q16; /* of RTTs in us, smoothed */
    __u32 last_rtt_us;
    __u32 falling; /* RTTs in a row that fell */
    __u32 cwnd_packets;
    __u32 is_timed_out;  /* nothing was acknowledged since */
    __u32 in_slow_start; /* always 0 */
};

DCGYM_INLINE void dcgym_timely_begin(struct dcgym_timely *timely, __u32 cwnd_packets) {
    *timely = (struct dcgym_timely){};
    timely->cwnd_packets = cwnd_packets;
}

DCGYM_INLINE __u64 dcgym_timely_link_rate(const struct dcgym_cc_ack *ack) {
    __u64 frame_bytes = ack->mss_bytes + DCGYM_TIMELY_HEADER_BYTES;

    return frame_bytes * 1000000000 / dcgym_most(ack->packet_ns, 1);
}

DCGYM_INLINE __u32 dcgym_timely_threshold(const struct dcgym_cc_ack *ack, __u32 least_us,
                                          __u32 packets) {
    __u32 packets_us = (__u32)((__u64)ack->packet_ns * packets / 1000);

    return ack->base_rtt_us + dcgym_most(least_us, packets_us);
}

DCGYM_INLINE void dcgym_timely_set(struct dcgym_timely *timely, __u64 rate) {
    if (rate > DCGYM_TIMELY_MOST_RATE)
        rate = DCGYM_TIMELY_MOST_RATE;
    timely->rate = rate < DCGYM_TIMELY_LEAST_RATE ? DCGYM_TIMELY_LEAST_RATE : rate;
}

DCGYM_INLINE void dcgym_timely_start(struct dcgym_timely *timely, const struct dcgym_cc_ack *ack) {
    __u64 link = dcgym_timely_link_rate(ack);
    __u64 rate =
        (__u64)timely->cwnd_packets * ack->mss_bytes * 1000000 / dcgym_most(ack->rtt_us, 1);

    dcgym_timely_set(timely, rate < link ? rate : link);
    timely->last_rtt_us = ack->rtt_us;
    timely->updated_us = ack->now_us;
}

/* rate * (1 - f cut), at most halved. */
DCGYM_INLINE void dcgym_timely_shrink(struct dcgym_timely *timely, __u32 part_q16, __u64 cut_q16) {
    cut_q16 = cut_q16 * part_q16 >> 16;
    if (cut_q16 > 32768)
        cut_q16 = 32768;
    dcgym_timely_set(timely, timely->rate - (timely->rate * cut_q16 >> 16));
}

DCGYM_INLINE void dcgym_timely_measure(struct dcgym_timely *timely,
                                       const struct dcgym_cc_ack *ack) {
    __s64 step_q16 = ((__s64)ack->rtt_us - timely->last_rtt_us) * DCGYM_TIMELY_WEIGHT_Q16;
    /* Towards minus infinity, in both programs alike. */
    __s64 kept_q16 = timely->difference_q16 * (65536 - DCGYM_TIMELY_WEIGHT_Q16) >> 16;

    timely->difference_q16 = kept_q16 + step_q16;
    timely->falling = ack->rtt_us < timely->last_rtt_us ? timely->falling + 1 : 0;
}

DCGYM_INLINE void dcgym_timely_on_ack(struct dcgym_timely *timely, const struct dcgym_cc_ack *ack) {
    __u32 base_us = dcgym_most(ack->base_rtt_us, 1), part_q16, factor = 1;
    __u32 high_us = dcgym_timely_threshold(ack, DCGYM_TIMELY_HIGH_US, DCGYM_TIMELY_HIGH_PACKETS);
    __u64 past_us = ack->now_us - timely->updated_us, gradient_q16, delta;

    if (ack->acked_packets)
        timely->is_timed_out = 0;
    if (!ack->rtt_us)
        return;
    if (!timely->last_rtt_us) {
        dcgym_timely_start(timely, ack);
        return;
    }
    dcgym_timely_measure(timely, ack);
    part_q16 = past_us < base_us ? (__u32)((past_us << 16) / base_us) : 65536;
    delta = (dcgym_timely_link_rate(ack) / DCGYM_TIMELY_DELTA_DIVISOR) * part_q16 >> 16;
    if (ack->rtt_us < dcgym_timely_threshold(ack, DCGYM_TIMELY_LOW_US, DCGYM_TIMELY_LOW_PACKETS)) {
        dcgym_timely_set(timely, timely->rate + delta);
    } else if (ack->rtt_us > high_us) {
        dcgym_timely_shrink(timely, part_q16,
                            (__u64)DCGYM_TIMELY_BETA_Q16 * (ack->rtt_us - high_us) / ack->rtt_us);
    } else if (timely->difference_q16 <= 0) {
        if (timely->falling >= DCGYM_TIMELY_FALLING)
            factor = DCGYM_TIMELY_MOST_FACTOR;
        dcgym_timely_set(timely, timely->rate + factor * delta);
    } else {
        gradient_q16 = (__u64)timely->difference_q16 / base_us;
        if (gradient_q16 > 65536)
            gradient_q16 = 65536;
        dcgym_timely_shrink(timely, part_q16, DCGYM_TIMELY_BETA_Q16 * gradient_q16 >> 16);
    }
    timely->last_rtt_us = ack->rtt_us;
    timely->updated_us = ack->now_us;
}

DCGYM_INLINE void dcgym_timely_on_loss(struct dcgym_timely *timely, __u64 now_us, __u32 srtt_us) {
    timely->prior_rate = timely->rate;
    if (now_us - timely->reduced_us < srtt_us)
        return;
    dcgym_timely_set(timely, timely->rate / 2);
    timely->reduced_us = now_us;
}

DCGYM_INLINE void dcgym_timely_on_timeout(struct dcgym_timely *timely) {
    if (!timely->is_timed_out)
        timely->prior_rate = timely->rate;
    timely->is_timed_out = 1;
    dcgym_timely_set(timely, timely->rate / 2);
}

DCGYM_INLINE void dcgym_timely_undo(struct dcgym_timely *timely) {
    if (timely->rate < timely->prior_rate)
        timely->rate = timely->prior_rate;
}

DCGYM_INLINE struct dcgym_cc_decision dcgym_timely_decide(const struct dcgym_timely *timely,
                                                          __u32 mss_bytes, __u32 srtt_us) {
    struct dcgym_cc_decision decision = {};
    __u64 window;

    decision.cwnd_packets = timely->cwnd_packets;
    if (!timely->last_rtt_us)
        return decision;
    decision.pacing_bytes_per_s = timely->rate;
    window = timely->rate * 2 / 1000 * srtt_us / 1000 / dcgym_most(mss_bytes, 1);
    decision.cwnd_packets =
        dcgym_clamp(window > 65535 ? 65535 : (__u32)window, 2 * DCGYM_LEAST_CWND, 65535);
    return decision;
}

#endif
