/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What fabric.bpf.c, its loader and the collector share. Plain C; included by all three. */
#ifndef DCGYM_FABRIC_H
#define DCGYM_FABRIC_H

#include <linux/types.h>

/* Fabric MAC addresses are 02:dc:00 and the host number (1-based) in 24 bits. */
#define DCGYM_MAC_PREFIX 0x02dc00u

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
	__u64 marks;	  /* packets set to CE (segments, for an offloaded packet) */
	__u64 tx_packets; /* offered to the port's queue, before any drop by the queue */
	__u64 tx_bytes;
	__u64 histogram[DCGYM_HISTOGRAM_BUCKETS];
};

/* What the programs know before they are loaded; the verifier drops what is switched off. */
struct dcgym_fabric_constants {
	__u32 n_hosts;
	__u32 count_flows; /* whether the flow matrix is counted */
};

/* Configuration of an interface, indexed by ifindex. */
struct dcgym_port_config {
	__u32 in_use;
	__u32 switch_id;
	__u32 port_id;
	__u32 mark_probability; /* of DCGYM_PROBABILITY_ONE; 0: no marking */
	__u64 mark_min_bytes;
	__u64 mark_max_bytes;
	__u64 queue_bytes; /* the queue's byte limit; 0: unknown */
};

/* One slot of Vose's alias table: `ifindex` below the threshold, else `alias`. */
struct dcgym_group_slot {
	__u32 ifindex;
	__u32 alias;
	__u32 threshold; /* of 2^32 */
};

struct dcgym_group {
	__u32 salt;
	__u32 size;
	struct dcgym_group_slot slots[DCGYM_GROUP_MEMBERS];
};

enum dcgym_drop {
	DCGYM_DROP_UNKNOWN_PORT, /* arrived at an interface that is not a fabric port */
	DCGYM_DROP_TRUNCATED,	 /* headers end before they should */
	DCGYM_DROP_MALFORMED,	 /* header fields contradict each other */
	DCGYM_DROP_PROTOCOL,	 /* neither IPv4, IPv6 nor ARP */
	DCGYM_DROP_UNKNOWN_MAC,	 /* destination is not a fabric host */
	DCGYM_DROP_NO_ROUTE,	 /* the switch has no next hop for the host */
	DCGYM_DROP_TTL_EXPIRED,
	DCGYM_DROP_REASONS,
};

#endif
