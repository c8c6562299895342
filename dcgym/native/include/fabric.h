/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What fabric.bpf.c, its loader and the collector share. Plain C; included by all three. */
#ifndef DCGYM_FABRIC_H
#define DCGYM_FABRIC_H

#include <linux/types.h>

/* Fabric MAC addresses are 02:dc:00 and the host number (1-based) in 24 bits. */
#define DCGYM_MAC_PREFIX 0x02dc00u

/* Host n has the address 10.0.0.0 + n. The gateway is the number that stands for all others: hosts
 * send everything to its MAC, and the fabric finds the receiver in the IP header. */
#define DCGYM_IP_NETWORK 10u
#define DCGYM_GATEWAY_NUMBER 0xfffffeu

/* In IPv6 host n is fd00:dc::n, n in the low 24 bits; these are the words before, in host order. */
#define DCGYM_IPV6_WORD_0 0xfd0000dcu

/* What switch i answers comes from the address of this number plus i. */
#define DCGYM_FIRST_SWITCH_NUMBER 0xfe0001u

/* Each switch's limit of answers: those that Linux has for a machine (icmp_msgs_per_sec, _burst).
 */
#define DCGYM_ANSWER_INTERVAL_NS 1000000ull
#define DCGYM_ANSWER_BURST 50

/* Most members (equal-cost next hops) of one group. */
#define DCGYM_GROUP_MEMBERS 64

/* mark_probability 1.0 */
#define DCGYM_PROBABILITY_ONE 65536u

/*
 * Backlog found by a packet at enqueue. Bucket 0: empty queue; bucket 1: under 512 bytes;
 * bucket b: [2^(b+7), 2^(b+8)) bytes; bucket 15: 4 MiB and more.
 */
#define DCGYM_HISTOGRAM_BUCKETS 16

/* One record a port, in a memory-mapped array map indexed by port id. */
struct dcgym_port_counters {
    __u64 peak_bytes; /* highest backlog since the reader last exchanged it with 0 */
    __u64 marks;      /* packets set to CE (segments, for an offloaded packet) */
    __u64 tx_packets; /* offered to the port's queue, before any drop by the queue */
    __u64 tx_bytes;
    __u64 histogram[DCGYM_HISTOGRAM_BUCKETS];
};

/* What the programs know before they are loaded; the verifier drops what is switched off. */
struct dcgym_fabric_constants {
    __u32 n_hosts;
    __u32 count_flows;  /* whether the flow matrix is counted */
    __u32 flow_entries; /* size of the flow table; 0: every packet is hashed, no flow is pinned */
    __u32 least_mtu;    /* no link's is smaller; 0: unknown */
    __u32 path_rule;    /* one of enum dcgym_path_rule */
    __u32 has_labels;   /* whether senders label their flows (plb.h) */
};

/* What writers change while the programs run, in a memory-mapped section. */
struct dcgym_fabric_control {
    __u64 flowlet_gap_ns;  /* with letflow, a flow idle for longer may move; 0: never */
    __u32 epoch;           /* flows pinned in an earlier one are forgotten */
    __u32 last_generation; /* of all groups: each change of members takes the next */
};

/* Configuration of an interface, indexed by ifindex. */
struct dcgym_port_config {
    __u32 in_use;
    __u32 switch_id;
    __u32 port_id;
    __u32 mark_probability; /* of DCGYM_PROBABILITY_ONE; 0: no marking */
    __u64 mark_min_bytes;
    __u64 mark_max_bytes; /* above the minimum: RED; equal to it: a step */
    __u64 queue_bytes;    /* the queue's byte limit; 0: unknown */
    __u32 mark_weight;    /* RED's w_q, of DCGYM_PROBABILITY_ONE; all of it: no averaging */
    __u32 mark_packet_ns; /* time that RED's average packet takes on the wire */
    __u32 loss_in;        /* probability, of 2^32, to lose a packet that arrives over the link */
    __u32 loss_out;       /* one that leaves over it: for a link whose other end is no port */
    __u32 mtu;            /* largest IP packet that leaves; 0: any */
    __u32 to_host;        /* 1: a host is at the other end of the link */
};

#define DCGYM_RED_FRACTION_BITS 12

/* State of RED at one port. */
struct dcgym_red {
    __u64 average;       /* queue in bytes, with DCGYM_RED_FRACTION_BITS fractional bits */
    __u64 busy_until_ns; /* when the queue left by the last arrival will have been sent */
    __u32 unmarked;      /* packets since the last mark, while the average is between the bounds */
    __u32 reserved;
};

/* One slot of Vose's alias table: `ifindex` below the threshold, else `alias`. */
struct dcgym_group_slot {
    __u32 ifindex;
    __u32 alias;
    __u32 threshold; /* of 2^32 */
};

/* Slot i belongs to member i, one of weight 0 included: so the slots also list the members. */
struct dcgym_group_table {
    __u32 salt;
    __u32 size;
    __u32 generation; /* of the members, never 0; the weights do not change it */
    struct dcgym_group_slot slots[DCGYM_GROUP_MEMBERS];
};

/*
 * A group lies in a memory-mapped array, so that whoever holds the map replaces it without a system
 * call. Table `version` % 2 is in force. A writer fills the other one, then publishes it by raising
 * `version`. A reader is consistent if `version` did not move while it read: the table it was
 * reading is overwritten only after that.
 */
struct dcgym_group {
    __u64 version;
    __u32 writer;  /* 1 while somebody writes; readers ignore it */
    __u32 follows; /* number, plus 1, of the group whose weights this one takes too; 0: none */
    struct dcgym_group_table tables[2];
};

/*
 * The flow table: where a flow of a switch goes. `pin` is one word, so that it can be read and
 * written whole: the ifindex and, above it, the generation that it was last found a member of.
 */
struct dcgym_flow_id {
    __u32 switch_id;
    __u32 hash;
};

struct dcgym_flow {
    __u64 pin;
    __u64 last_ns; /* CLOCK_MONOTONIC of the last packet; kept only with a flowlet gap */
    __u32 epoch;
    __u32 reserved;
};

enum dcgym_drop {
#define DCGYM_ROW(symbol, ...) DCGYM_DROP_##symbol,
#include "tables/drop_reasons.h"
    DCGYM_DROP_REASONS,
};

#endif
