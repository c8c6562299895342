/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What a congestion control that is one header sees and answers: the same arithmetic runs as a BPF
 * struct_ops program (bpf/transport/window_control.bpf.c) and in the packet twin. Integers only,
 * every loop bounded by a constant.
 *
 * An algorithm NAME is struct dcgym_NAME, a state of at most DCGYM_CC_STATE_BYTES with the member
 * in_slow_start, and these functions:
 *   dcgym_NAME_begin(state, cwnd_packets)
 *   dcgym_NAME_on_ack(state, ack)
 *   dcgym_NAME_on_loss(state, now_us, srtt_us)   a fast recovery begins
 *   dcgym_NAME_on_timeout(state)                 the retransmission timer ran out, each time
 *   dcgym_NAME_undo(state)                       the last loss was none
 *   dcgym_NAME_decide(state, mss_bytes, srtt_us) the window and the rate that follow
 * What makes a program of it defines DCGYM_CONTROL as NAME and DCGYM_CONTROL_HEADER as the header.
 */
#ifndef DCGYM_WINDOW_CONTROL_H
#define DCGYM_WINDOW_CONTROL_H

#include "congestion.h"
#include "plb.h"

#define DCGYM_INLINE static inline __attribute__((always_inline))

/* Windows are fixed point with 16 fractional bits. */
#define DCGYM_CWND_BITS 16
#define DCGYM_CWND_ONE (1u << DCGYM_CWND_BITS)

/* Every second segment is acknowledged at once; a single one may wait 40 ms (RFC 1122, 4.2.3.2). */
#define DCGYM_LEAST_CWND 2u

#define DCGYM_NO_RTT 0xffffffffu

#define DCGYM_CC_STATE_BYTES 96

/* The name of one of the functions of DCGYM_CONTROL. */
#define DCGYM_CONTROL_NAME(function) DCGYM_JOIN_(DCGYM_CONTROL, function)
#define DCGYM_JOIN_(name, function) DCGYM_JOINED_(name, function)
#define DCGYM_JOINED_(name, function) dcgym_##name##_##function
/* Its state. */
#define DCGYM_CONTROL_STATE DCGYM_STATE_(DCGYM_CONTROL)
#define DCGYM_STATE_(name) DCGYM_STATED_(name)
#define DCGYM_STATED_(name) struct dcgym_##name

/* What an operator tells the algorithm of the network. */
struct dcgym_cc_options {
    __u32 base_rtt_us; /* of a full packet on the longest path while queues are empty */
    __u32 packet_ns;   /* what a full packet takes on the slowest link */
    __u32 is_traced;
    struct dcgym_plb_limits plb; /* of dctcp; no rounds: flows keep their label */
};

/* One acknowledgement. Sequence numbers are in the transport's own units. */
struct dcgym_cc_ack {
    __u64 now_us;
    __u32 rtt_us;        /* of the newest packet that it covers; 0: none was measured */
    __u32 srtt_us;       /* smoothed; 0: none yet */
    __u32 acked_packets; /* newly delivered, selectively or not */
    __u32 base_rtt_us;   /* of struct dcgym_cc_options, as is packet_ns */
    __u32 packet_ns;
    __u32 una_seq;
    __u32 nxt_seq;
    __u32 mss_bytes;
    __u32 is_limited; /* the window is what holds the sender back */
};

/* What follows. A rate of 0 asks for no pacing of the algorithm's own. */
struct dcgym_cc_decision {
    __u64 pacing_bytes_per_s;
    __u32 cwnd_packets;
    __u32 reserved;
};

/* An algorithm that is found at run time (foreign_control.c). */
struct dcgym_control_functions {
    void (*begin)(void *state, __u32 cwnd_packets);
    void (*on_ack)(void *state, const struct dcgym_cc_ack *ack);
    void (*on_loss)(void *state, __u64 now_us, __u32 srtt_us);
    void (*on_timeout)(void *state);
    void (*undo)(void *state);
    struct dcgym_cc_decision (*decide)(const void *state, __u32 mss_bytes, __u32 srtt_us);
    __u32 (*in_slow_start)(const void *state);
};

enum dcgym_cc_event { DCGYM_CC_ACK, DCGYM_CC_LOSS, DCGYM_CC_TIMEOUT, DCGYM_CC_UNDO };

/* The first events of a connection, what they were taken from and what followed. */
#define DCGYM_CC_TRACE_EVENTS 512

struct dcgym_cc_traced {
    struct dcgym_cc_ack ack; /* of a loss the times alone */
    struct dcgym_cc_decision decision;
    __u32 event; /* enum dcgym_cc_event */
    __u32 reserved;
};

struct dcgym_cc_trace {
    __u64 n_events;
    struct dcgym_cc_traced events[DCGYM_CC_TRACE_EVENTS];
};

DCGYM_INLINE __u32 dcgym_least(__u32 a, __u32 b) {
    return a < b ? a : b;
}

DCGYM_INLINE __u32 dcgym_most(__u32 a, __u32 b) {
    return a > b ? a : b;
}

DCGYM_INLINE __u32 dcgym_clamp(__u32 value, __u32 low, __u32 high) {
    return dcgym_most(dcgym_least(value, high), low);
}

/*
 * The RTT of an acknowledgement. Of data that was sent twice the kernel's own answer is by time
 * stamps, in whole ms: `rtt_us` is 0 then. What counts instead is the time since the newest packet
 * that it delivers was sent last, unless that is shorter than any RTT (as tcp_rack_advance
 * decides).
 */
DCGYM_INLINE __u32 dcgym_cc_rtt_us(__u32 rtt_us, __u32 acked_packets, __u64 since_sent_us,
                                   __u32 least_rtt_us) {
    if (rtt_us)
        return rtt_us;
    return acked_packets && since_sent_us >= least_rtt_us ? (__u32)since_sent_us : 0;
}

/* The largest whole number whose square is at most a number below 2^48. */
DCGYM_INLINE __u32 dcgym_square_root(__u64 value) {
    __u64 root = 0;

    for (int bit = 23; bit >= 0; bit--) {
        __u64 trial = root | 1ull << bit;

        if (trial * trial <= value)
            root = trial;
    }
    return (__u32)root;
}

/* A window in force: to the nearest packet, never one alone. */
DCGYM_INLINE __u32 dcgym_whole_cwnd(__u32 cwnd_q16) {
    return dcgym_most((cwnd_q16 + DCGYM_CWND_ONE / 2) >> DCGYM_CWND_BITS, DCGYM_LEAST_CWND);
}

/* Bytes a second that a window of a fraction of packets means; at least one. */
DCGYM_INLINE __u64 dcgym_rate_of(__u32 cwnd_q16, __u32 mss_bytes, __u32 srtt_us) {
    __u64 rate = ((__u64)cwnd_q16 * mss_bytes >> 8) * 1000000 / dcgym_most(srtt_us, 1) >> 8;

    return rate ? rate : 1;
}

#endif
