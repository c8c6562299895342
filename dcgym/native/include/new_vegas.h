/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What new_vegas.bpf.c and its loader share: the per-socket trace, kept only when asked for. */
#ifndef DCGYM_NEW_VEGAS_H
#define DCGYM_NEW_VEGAS_H

#include "congestion.h"

#define DCGYM_NV_TRACE_DECISIONS 256

enum dcgym_nv_kind {
    DCGYM_NV_INCREASE, /* no congestion: the window may grow */
    DCGYM_NV_DECREASE, /* more in the network than the wanted window */
    DCGYM_NV_LOSS,     /* a lost packet */
};

/* One decision, and what it was taken from. */
struct dcgym_nv_decision {
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u64 rate_bytes_per_s;
    __u32 kind;
    __u32 min_rtt_us;
    __u32 mss_bytes;
    __u32 samples; /* measurements since the decision before */
    __u32 cwnd_packets;
    __u32 wanted_packets;
    __u32 new_cwnd_packets;
    __u32 ssthresh_packets;
    __u32 delivered_packets; /* in the life of the connection */
    __u32 acked_packets;     /* by the ACK that led here; 0 for a loss */
    __u32 least_cwnd_packets;
};

/* The first decisions of the connection; those that no longer fit are counted only. */
struct dcgym_nv_trace {
    __u64 n_decisions;
    struct dcgym_nv_decision decisions[DCGYM_NV_TRACE_DECISIONS];
};

#endif
