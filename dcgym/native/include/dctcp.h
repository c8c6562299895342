/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What dctcp.bpf.c and its loader share: the per-socket trace, kept only when asked for. */
#ifndef DCGYM_DCTCP_H
#define DCGYM_DCTCP_H

#include "congestion.h"

/* alpha and M are fixed point with this many fractional bits. */
#define DCGYM_ALPHA_BITS 20
#define DCGYM_ALPHA_ONE (1u << DCGYM_ALPHA_BITS)

#define DCGYM_TRACE_WINDOWS 64
#define DCGYM_TRACE_REDUCTIONS 64

/* One observation window of RFC 8257, section 3.3. */
struct dcgym_dctcp_window {
    __u32 delivered_packets;
    __u32 marked_packets;
    __u32 alpha; /* after the update */
    __u32 cwnd_packets;
};

struct dcgym_dctcp_reduction {
    __u32 window; /* windows completed before it */
    __u32 alpha;
    __u32 cwnd_packets;
    __u32 ssthresh_packets;
};

/* Rings: entry i is at i modulo its capacity. */
struct dcgym_dctcp_trace {
    __u32 n_windows;
    __u32 n_reductions;
    struct dcgym_dctcp_window windows[DCGYM_TRACE_WINDOWS];
    struct dcgym_dctcp_reduction reductions[DCGYM_TRACE_REDUCTIONS];
};

#endif
