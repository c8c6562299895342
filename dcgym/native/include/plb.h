/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * When a sender gives its flow another label, and so another path: PLB (Qureshi et al., SIGCOMM
 * 2022) as net/ipv4/tcp_plb.c of Linux 6.2 has it. FlowBender (Kabbani et al., CoNEXT 2014) is the
 * same with other numbers. A lost SYN and the receiver's acknowledgements keep their labels, which
 * Linux changes too.
 */
#ifndef DCGYM_PLB_H
#define DCGYM_PLB_H

#include "splitmix.h"

#define DCGYM_PLB_ONE 256u /* a share of marked packets of 1 */

/* Flows that have a label of their own, the longest unused forgotten first. */
#define DCGYM_LABELS 65536

/* A flow as switches hash it (DCGYM_FLOW_WORDS of path_rules.h). */
struct dcgym_labelled_flow {
    __u32 source[4]; /* IPv4 in the first word */
    __u32 destination[4];
    __u32 ports; /* as on the wire */
    __u32 protocol;
};

/* What a sender tells the switches by: its bits change the seed of every hash of the flow. */
struct dcgym_label {
    __u32 label;
    __u32 moves;
};

struct dcgym_plb_limits {
    __u32 marked_share; /* of DCGYM_PLB_ONE: a round trip with as much is congested */
    __u32 rounds;       /* congested ones in a row after which a flow moves */
    __u32 idle_rounds;  /* fewer are enough where nothing is under way; 0: they never are */
    __u64 suspend_ns;   /* a timeout keeps it where it is for that long, or up to twice */
};

/* Linux' defaults: sysctl tcp_plb_cong_thresh, _rehash_rounds, _idle_rehash_rounds and
 * _suspend_rto_sec. */
#define DCGYM_PLB_LIMITS                                                                           \
    { 128, 12, 3, 60000000000ull }
/* T = 5 % and N = 1; 13 of 256 is the least share above 5 %. */
#define DCGYM_FLOWBENDER_LIMITS                                                                    \
    { 13, 1, 0, 0 }

struct dcgym_plb {
    __u64 suspended_until_ns;
    __u32 congested_rounds;
    __u32 moves;
};

/* Takes in a round trip: packets delivered, and those of them that were marked. */
DCGYM_INLINE void dcgym_plb_round(struct dcgym_plb *plb, const struct dcgym_plb_limits *limits,
                                  __u32 delivered, __u32 marked) {
    if (!delivered)
        return;
    if ((__u64)marked * DCGYM_PLB_ONE / delivered < limits->marked_share)
        plb->congested_rounds = 0;
    else if (plb->congested_rounds < limits->rounds)
        plb->congested_rounds++;
}

/* Whether the flow takes a new label now. */
DCGYM_INLINE int dcgym_plb_moves(struct dcgym_plb *plb, const struct dcgym_plb_limits *limits,
                                 int is_idle, __u64 now_ns) {
    const int is_due =
        plb->congested_rounds >= limits->rounds ||
        (is_idle && limits->idle_rounds && plb->congested_rounds >= limits->idle_rounds);

    if (!is_due || now_ns < plb->suspended_until_ns)
        return 0;
    plb->congested_rounds = 0;
    plb->moves++;
    return 1;
}

/* Each timeout gives a new label, whatever the marks (tcp_write_timeout). */
DCGYM_INLINE void dcgym_plb_timeout(struct dcgym_plb *plb) {
    plb->moves++;
}

/*
 * The first timeout of the same data (CA_EVENT_LOSS) suspends other moves; `random` are 32 uniform
 * bits.
 */
DCGYM_INLINE void dcgym_plb_suspend(struct dcgym_plb *plb, const struct dcgym_plb_limits *limits,
                                    __u64 now_ns, __u32 random) {
    plb->suspended_until_ns =
        now_ns + limits->suspend_ns + ((limits->suspend_ns >> 10) * random >> 22);
    plb->congested_rounds = 0;
}

#endif
