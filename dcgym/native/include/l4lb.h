/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What l4lb.bpf.c and its loader share, beside the features and pools of balancing.h. */
#ifndef DCGYM_L4LB_H
#define DCGYM_L4LB_H

#include "balancing.h"

#define DCGYM_LB_WAYS 4 /* entries of a bucket of the flow table */
#define DCGYM_LB_MAX_VIPS 64
#define DCGYM_LB_NO_PORT 0xffffffffU /* value of an address whose port is none of ours */
#define DCGYM_LB_ADDRESS_WORDS 4

/* What the programs know before they are loaded. */
struct dcgym_lb_constants {
    __u64 seed; /* of the flow hash: balancers with the same one agree where untracked flows go */
    __u32 n_vips;
    __u32 bucket_mask;  /* buckets of the flow table - 1, a power of two - 1 */
    __u32 witness_mask; /* the same of the record of placements */
    __u32 collects;     /* whether samples are taken; counters always are */
};

/* Run-time settings, in a memory-mapped section. A timeout counts from a flow's last packet. */
struct dcgym_lb_control {
    __u64 syn_timeout_ns;
    __u64 tcp_timeout_ns;
    __u64 udp_timeout_ns;
    __u64 closed_timeout_ns;
    __u64 snapshot_interval_ns;
    __u64 mac; /* of the balancer, in the low bytes as they lie in memory */
};

/* Addresses in network order, IPv4 in the first word; port in network order. */
struct dcgym_lb_vip_key {
    __u32 address[DCGYM_LB_ADDRESS_WORDS];
    __u16 port; /* 0 with protocol 0: the address itself */
    __u8 protocol;
    __u8 version; /* 4 or 6 */
};

/* Server number i of VIP v lies at [v * DCGYM_LB_SERVERS + i]. */
struct dcgym_lb_target {
    __u8 mac[6];
    __u16 generation; /* rises when another server takes the number; 0: nobody has it */
};

enum dcgym_lb_phase {
    DCGYM_LB_NULL,
    DCGYM_LB_SYN,    /* opened; its client has shown nothing more */
    DCGYM_LB_CONN,   /* its client went on: counted as ongoing */
    DCGYM_LB_CLOSED, /* ended, and only routed: half of it may live on, and ACKs are to come */
};

/* What the data plane keeps of a VIP; the snapshots are made of it. */
struct dcgym_lb_state {
    __u64 random;
    __u64 last_open_ns;
    __u64 syns;
    __u64 untracked;
    __u64 timeouts;
    __u32 turn;
    __u32 ongoing[DCGYM_LB_SERVERS];
    __u64 packets[DCGYM_LB_SERVERS];
    __u64 flows[DCGYM_LB_SERVERS];
    __u64 completed[DCGYM_LB_SERVERS];
    struct dcgym_score score[DCGYM_LB_SERVERS];
};

/* Per-CPU counters: what was dropped and why, then what happened. */
enum dcgym_lb_counter {
    DCGYM_LB_DROP_TRUNCATED = 1, /* headers end before they should */
    DCGYM_LB_DROP_MALFORMED,     /* header fields contradict each other */
    DCGYM_LB_DROP_FRAGMENT,      /* of a datagram to a VIP: only the first has ports */
    DCGYM_LB_DROP_EXTENSION,     /* an IPv6 extension header before TCP or UDP */
    DCGYM_LB_DROP_PORT,          /* to the address of a VIP, but no port of it */
    DCGYM_LB_DROP_NO_SERVER,     /* the pool is empty, or names a number without a server */
    DCGYM_LB_DROP_BUSY,          /* the pool was replaced during every attempt to read it */
    DCGYM_LB_MISSED,             /* packets of flows that are not in the table, sent by hash */
    DCGYM_LB_EVICTED,            /* ended or timed-out entries that gave way to new flows */
    DCGYM_LB_BROKEN, /* times that a flow's packets went to another server than before */
    DCGYM_LB_COUNTERS,
};

/* The flow hash takes this for each word in turn, from the seed on. */
DCGYM_INLINE __u64 dcgym_lb_hash(__u64 hash, __u64 word) {
    return dcgym_mix((hash ^ word) + 0x9e3779b97f4a7c15ULL);
}

/*
 * Rendezvous hashing (Thaler, Ravishankar 1998) over the pool: the server with the highest hash of
 * flow and server. When a server leaves, only its flows move; when one comes, only its share does.
 */
DCGYM_INLINE __u32 dcgym_lb_rendezvous(const struct dcgym_pool_view *pool, __u64 hash) {
    __u64 best = 0, found = DCGYM_NO_SERVER;

    for (__u32 start = 0; start < DCGYM_RULE_SERVERS; start += DCGYM_RULE_STRIDE) {
        if (start >= pool->n)
            break;
        for (__u32 i = start; i < start + DCGYM_RULE_STRIDE; i++) {
            const __u64 server = pool->server[i];
            const __u64 score = (dcgym_lb_hash(hash, server) >> 2) + 1;
            const __u64 more = dcgym_less(best, score) & dcgym_less(i, pool->n);

            best = dcgym_pick(more, score, best);
            found = dcgym_pick(more, server, found);
        }
    }
    return (__u32)found;
}

#endif
