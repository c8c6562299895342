/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Swift: a target of delay, additive increase below it, a decrease in proportion above it.
 *
 * Source: G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
 * Datacenter", SIGCOMM 2020; formulas and constants as htsim's swift.cpp has them, whose author
 * marks them as guesses. Ours, because Linux' TCP tells neither hops nor delays of the network
 * card:
 *   - base: 20 us, the round trip of the empty network and 4 packets on the slowest link, where
 *     htsim has 20 us and a delay a hop;
 *   - the range of flow scaling is 5 times that base (htsim: 5 times the 20 us), and it counts
 *     fractions of packets, which htsim rounds down;
 *   - delay: the RTT that TCP measured, the receiver's and the hosts' own delay included;
 *   - a window that does not hold the sender back does not grow;
 *   - a loss halves the window when recovery begins (htsim: when it ends), and delay cuts it once a
 *     round trip in recovery too;
 *   - each timeout halves it, whenever it was cut before;
 *   - the window of before is back if a loss or a timeout was none;
 *   - slow start up to the first delay of the target: a connection of Linux begins with 10 packets;
 *   - the window in force is the nearest number of packets, and at least 2; below that the pacing
 *     rate falls, down to what 1/100 packet (Swift: 1/1000, htsim: 10 bytes) a round trip is.
 */
#ifndef DCGYM_SWIFT_H
#define DCGYM_SWIFT_H

#include "window_control.h"

#define DCGYM_SWIFT_BASE_US 20u
#define DCGYM_SWIFT_BASE_PACKETS 4u
#define DCGYM_SWIFT_LEAST_Q16 655u                      /* 1/100 packet */
#define DCGYM_SWIFT_MOST_Q16 (1000u << DCGYM_CWND_BITS) /* 1000 packets */
#define DCGYM_SWIFT_BETA_Q16 52429u                     /* 0.8 */
#define DCGYM_SWIFT_MOST_CUT_Q16 32768u                 /* no step cuts by more than a half */
#define DCGYM_SWIFT_TIMEOUTS 5u
/*
 * Flow scaling: clip(alpha / sqrt(cwnd) - beta, 0, range) with range = 5 base,
 * alpha = range / (1 / sqrt(0.1) - 1 / sqrt(100)) = 1.632770 base and beta = alpha / sqrt(100).
 */
#define DCGYM_SWIFT_RANGE 5u
#define DCGYM_SWIFT_ALPHA_Q16 107005u
#define DCGYM_SWIFT_BETA_DIVISOR 10u

struct dcgym_swift {
    __u64 reduced_us; /* when the window was last cut */
    __u32 cwnd_q16;
    __u32 prior_q16; /* before the last loss */
    __u32 timeouts;  /* in a row */
    __u32 in_slow_start;
};

DCGYM_INLINE void dcgym_swift_begin(struct dcgym_swift *swift, __u32 cwnd_packets) {
    swift->reduced_us = 0;
    swift->cwnd_q16 = cwnd_packets << DCGYM_CWND_BITS;
    swift->prior_q16 = 0;
    swift->timeouts = 0;
    swift->in_slow_start = 1;
}

DCGYM_INLINE __u32 dcgym_swift_target_us(const struct dcgym_swift *swift,
                                         const struct dcgym_cc_ack *ack) {
    __u64 packets_us = (__u64)ack->packet_ns * DCGYM_SWIFT_BASE_PACKETS / 1000;
    __u64 base_us = DCGYM_SWIFT_BASE_US + ack->base_rtt_us + packets_us;
    __u64 alpha = base_us * DCGYM_SWIFT_ALPHA_Q16 >> 16;
    /* sqrt(cwnd) with 16 fractional bits. */
    __u64 root = dcgym_square_root((__u64)swift->cwnd_q16 << 16);
    __u64 scaled = (alpha << 16) / root, beta = alpha / DCGYM_SWIFT_BETA_DIVISOR;
    __u64 extra = scaled > beta ? scaled - beta : 0;

    if (extra > DCGYM_SWIFT_RANGE * base_us)
        extra = DCGYM_SWIFT_RANGE * base_us;
    return (__u32)(base_us + extra);
}

DCGYM_INLINE void dcgym_swift_set(struct dcgym_swift *swift, __u64 cwnd_q16) {
    if (cwnd_q16 > DCGYM_SWIFT_MOST_Q16)
        cwnd_q16 = DCGYM_SWIFT_MOST_Q16;
    swift->cwnd_q16 = dcgym_most((__u32)cwnd_q16, DCGYM_SWIFT_LEAST_Q16);
}

/* One packet more a round trip; below one packet, one more for each that arrived. */
DCGYM_INLINE void dcgym_swift_grow(struct dcgym_swift *swift, __u32 acked_packets) {
    __u64 more = (__u64)acked_packets << DCGYM_CWND_BITS;

    if (!swift->in_slow_start && swift->cwnd_q16 >= DCGYM_CWND_ONE)
        more = (more << DCGYM_CWND_BITS) / swift->cwnd_q16;
    dcgym_swift_set(swift, swift->cwnd_q16 + more);
}

/* At most once a round trip: cwnd * max(1 - 0.8 (d - target) / d, 1/2). */
DCGYM_INLINE void dcgym_swift_shrink(struct dcgym_swift *swift, const struct dcgym_cc_ack *ack,
                                     __u32 target_us) {
    __u64 cut;

    swift->in_slow_start = 0;
    if (ack->now_us - swift->reduced_us < ack->srtt_us)
        return;
    cut = (__u64)DCGYM_SWIFT_BETA_Q16 * (ack->rtt_us - target_us) / ack->rtt_us;
    if (cut > DCGYM_SWIFT_MOST_CUT_Q16)
        cut = DCGYM_SWIFT_MOST_CUT_Q16;
    dcgym_swift_set(swift, swift->cwnd_q16 - ((__u64)swift->cwnd_q16 * cut >> 16));
    swift->reduced_us = ack->now_us;
}

DCGYM_INLINE void dcgym_swift_on_ack(struct dcgym_swift *swift, const struct dcgym_cc_ack *ack) {
    __u32 target_us;

    if (ack->acked_packets)
        swift->timeouts = 0;
    if (!ack->rtt_us)
        return;
    target_us = dcgym_swift_target_us(swift, ack);
    if (ack->rtt_us >= target_us)
        dcgym_swift_shrink(swift, ack, target_us);
    else if (ack->is_limited)
        dcgym_swift_grow(swift, ack->acked_packets);
}

DCGYM_INLINE void dcgym_swift_on_loss(struct dcgym_swift *swift, __u64 now_us, __u32 srtt_us) {
    swift->in_slow_start = 0;
    swift->prior_q16 = swift->cwnd_q16;
    if (now_us - swift->reduced_us < srtt_us)
        return;
    dcgym_swift_set(swift, swift->cwnd_q16 / 2);
    swift->reduced_us = now_us;
}

DCGYM_INLINE void dcgym_swift_on_timeout(struct dcgym_swift *swift) {
    swift->in_slow_start = 0;
    if (!swift->timeouts)
        swift->prior_q16 = swift->cwnd_q16;
    swift->timeouts++;
    dcgym_swift_set(swift, swift->timeouts < DCGYM_SWIFT_TIMEOUTS ? swift->cwnd_q16 / 2 : 0);
}

DCGYM_INLINE void dcgym_swift_undo(struct dcgym_swift *swift) {
    swift->cwnd_q16 = dcgym_most(swift->cwnd_q16, swift->prior_q16);
    swift->timeouts = 0;
}

DCGYM_INLINE struct dcgym_cc_decision dcgym_swift_decide(const struct dcgym_swift *swift,
                                                         __u32 mss_bytes, __u32 srtt_us) {
    struct dcgym_cc_decision decision = {};

    decision.cwnd_packets = dcgym_whole_cwnd(swift->cwnd_q16);
    if (swift->cwnd_q16 < DCGYM_LEAST_CWND << DCGYM_CWND_BITS)
        decision.pacing_bytes_per_s = dcgym_rate_of(swift->cwnd_q16, mss_bytes, srtt_us);
    return decision;
}

#endif
