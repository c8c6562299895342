/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * theta-PowerTCP: a window that follows the power of the queue, of RTTs alone.
 *
 * Source: V. Addanki et al., "PowerTCP: Pushing the Performance Limits of Datacenter Networks",
 * NSDI 2022; formulas and gammas as in the authors' ns3-datacenter (tcp-advanced.cc):
 *   A = max(1/2, 1 + dRTT / dt), U = RTT A / base RTT, smoothed over one base RTT,
 *   cwnd <- gamma (cwnd / U + AI) + (1 - gamma) cwnd once a RTT, gamma 0.7, and 0.9 while U < 1/2.
 * Ours:
 *   - the base RTT is that of the empty network (struct dcgym_cc_options);
 *   - RTT and power are taken at every ACK, over the true time since the one before, as in the
 *     paper's algorithm 2: tcp-advanced.cc takes them once a round trip;
 *   - 1 + dRTT / dt counts as 16 at most, and times are whole microseconds;
 *   - a connection begins with Linux' 10 packets, not with a window of the line rate;
 *   - the window has 2 to 4096 packets and no pacing: the source's ends at the line rate times the
 *     base RTT, and is paced over the base RTT;
 *   - a window that does not hold the sender back may only shrink;
 *   - AI is one packet;
 *   - U counts as 1/2 at least and 4 at most, so that no step doubles, or leaves less than a
 *     quarter: token buckets pass single packets at once, with RTTs far below the base;
 *   - a loss halves the window once a round trip, and so does each timeout, where the source leaves
 *     it;
 *   - the window of before is back if a loss or a timeout was none.
 */
#ifndef DCGYM_THETA_POWERTCP_H
#define DCGYM_THETA_POWERTCP_H

#include "window_control.h"

#define DCGYM_THETA_GAMMA_Q16 45875u      /* 0.7 */
#define DCGYM_THETA_FAST_GAMMA_Q16 58982u /* 0.9 */
#define DCGYM_THETA_LEAST_POWER_Q16 32768u
#define DCGYM_THETA_MOST_POWER_Q16 (4u << 16)
#define DCGYM_THETA_MOST_CWND_Q16 (4096u << DCGYM_CWND_BITS)

struct dcgym_theta_powertcp {
    __u64 seen_us; /* when the last RTT was measured */
    __u64 reduced_us;
    __u32 last_rtt_us;
    __u32 power_q16; /* U, smoothed */
    __u32 cwnd_q16;
    __u32 prior_q16;
    __u32 is_timed_out; /* nothing was acknowledged since */
    __u32 round_end_seq;
    __u32 is_in_round;
    __u32 in_slow_start; /* always 0 */
};

DCGYM_INLINE void dcgym_theta_powertcp_begin(struct dcgym_theta_powertcp *theta,
                                             __u32 cwnd_packets) {
    *theta = (struct dcgym_theta_powertcp){};
    theta->cwnd_q16 = cwnd_packets << DCGYM_CWND_BITS;
    theta->power_q16 = 65536;
}

DCGYM_INLINE void dcgym_theta_powertcp_set(struct dcgym_theta_powertcp *theta, __u64 cwnd_q16) {
    theta->cwnd_q16 = dcgym_clamp(cwnd_q16 > DCGYM_THETA_MOST_CWND_Q16 ? DCGYM_THETA_MOST_CWND_Q16
                                                                       : (__u32)cwnd_q16,
                                  DCGYM_LEAST_CWND << DCGYM_CWND_BITS, DCGYM_THETA_MOST_CWND_Q16);
}

/* max(1/2, 1 + dRTT / dt), at most 16. */
DCGYM_INLINE __u64 dcgym_theta_powertcp_current(const struct dcgym_theta_powertcp *theta,
                                                const struct dcgym_cc_ack *ack, __u64 past_us) {
    __u64 change_q16, most = 15 << 16;

    if (ack->rtt_us >= theta->last_rtt_us) {
        change_q16 = ((__u64)(ack->rtt_us - theta->last_rtt_us) << 16) / past_us;
        return 65536 + (change_q16 < most ? change_q16 : most);
    }
    change_q16 = ((__u64)(theta->last_rtt_us - ack->rtt_us) << 16) / past_us;
    return change_q16 < 32768 ? 65536 - change_q16 : 32768;
}

/* U (base - dt) / base + RTT A / base dt / base. */
DCGYM_INLINE void dcgym_theta_powertcp_measure(struct dcgym_theta_powertcp *theta,
                                               const struct dcgym_cc_ack *ack) {
    __u64 base_us = dcgym_most(ack->base_rtt_us, 1), past_us = ack->now_us - theta->seen_us;
    __u64 power_q16;

    if (!past_us)
        past_us = 1;
    power_q16 = ack->rtt_us * dcgym_theta_powertcp_current(theta, ack, past_us) / base_us;
    if (past_us > base_us)
        past_us = base_us;
    power_q16 = (theta->power_q16 * (base_us - past_us) + power_q16 * past_us) / base_us;
    theta->power_q16 = dcgym_clamp(
        power_q16 > DCGYM_THETA_MOST_POWER_Q16 ? DCGYM_THETA_MOST_POWER_Q16 : (__u32)power_q16, 1,
        DCGYM_THETA_MOST_POWER_Q16);
}

DCGYM_INLINE void dcgym_theta_powertcp_update(struct dcgym_theta_powertcp *theta,
                                              __u32 is_limited) {
    __u32 power_q16 = dcgym_most(theta->power_q16, DCGYM_THETA_LEAST_POWER_Q16);
    __u64 gamma = theta->power_q16 < DCGYM_THETA_LEAST_POWER_Q16 ? DCGYM_THETA_FAST_GAMMA_Q16
                                                                 : DCGYM_THETA_GAMMA_Q16;
    __u64 wanted = ((__u64)theta->cwnd_q16 << 16) / power_q16 + DCGYM_CWND_ONE;
    __u64 cwnd_q16 = (gamma * wanted + (65536 - gamma) * theta->cwnd_q16) >> 16;

    if (is_limited || cwnd_q16 < theta->cwnd_q16)
        dcgym_theta_powertcp_set(theta, cwnd_q16);
}

DCGYM_INLINE void dcgym_theta_powertcp_on_ack(struct dcgym_theta_powertcp *theta,
                                              const struct dcgym_cc_ack *ack) {
    if (ack->acked_packets)
        theta->is_timed_out = 0;
    if (!ack->rtt_us)
        return;
    if (theta->last_rtt_us)
        dcgym_theta_powertcp_measure(theta, ack);
    theta->last_rtt_us = ack->rtt_us;
    theta->seen_us = ack->now_us;
    if (theta->is_in_round && (__s32)(ack->una_seq - theta->round_end_seq) < 0)
        return;
    if (theta->is_in_round)
        dcgym_theta_powertcp_update(theta, ack->is_limited);
    theta->is_in_round = 1;
    theta->round_end_seq = ack->nxt_seq;
}

DCGYM_INLINE void dcgym_theta_powertcp_on_loss(struct dcgym_theta_powertcp *theta, __u64 now_us,
                                               __u32 srtt_us) {
    theta->prior_q16 = theta->cwnd_q16;
    if (now_us - theta->reduced_us < srtt_us)
        return;
    dcgym_theta_powertcp_set(theta, theta->cwnd_q16 / 2);
    theta->reduced_us = now_us;
}

DCGYM_INLINE void dcgym_theta_powertcp_on_timeout(struct dcgym_theta_powertcp *theta) {
    if (!theta->is_timed_out)
        theta->prior_q16 = theta->cwnd_q16;
    theta->is_timed_out = 1;
    dcgym_theta_powertcp_set(theta, theta->cwnd_q16 / 2);
}

DCGYM_INLINE void dcgym_theta_powertcp_undo(struct dcgym_theta_powertcp *theta) {
    theta->cwnd_q16 = dcgym_most(theta->cwnd_q16, theta->prior_q16);
}

DCGYM_INLINE struct dcgym_cc_decision
dcgym_theta_powertcp_decide(const struct dcgym_theta_powertcp *theta, __u32 mss_bytes,
                            __u32 srtt_us) {
    struct dcgym_cc_decision decision = {};

    (void)mss_bytes;
    (void)srtt_us;
    decision.cwnd_packets = dcgym_whole_cwnd(theta->cwnd_q16);
    return decision;
}

#endif
