/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Link delay: what delay.bpf.c, the relay, its owner and its readers share.
 *
 * A packet that reaches the receiving end of a delayed link goes by a TAP to the relay, which holds
 * it, and comes back by the same TAP. The relay's memory that readers map is one header, then
 * n_links entries. Every field is 8-byte aligned, little endian, and has the relay as its only
 * writer; counters begin anew with an episode.
 */
#ifndef DCGYM_LINK_DELAY_H
#define DCGYM_LINK_DELAY_H

#include <linux/types.h>

/* The TAP of an interface has the interface's number and this. */
#define DCGYM_DELAY_IFINDEX 0x1000000

/* skb->mark of a packet on its way from the TAP to the interface. */
#define DCGYM_DELAY_OVER 0xdc0de1a7u

/*
 * A packet tells the relay when it arrived by a service tag (802.1ad) in front of its type, which
 * costs no copy: CLOCK_MONOTONIC in units of 2^11 ns, 16 bits of it, which repeat after 134 ms.
 */
#define DCGYM_DELAY_STAMP_SHIFT 11
#define DCGYM_DELAY_STAMP_PROTOCOL 0x88a8

#define DCGYM_DELAY_MAGIC 0x4447444c59303031ull
#define DCGYM_DELAY_VERSION 1

/*
 * How late packets left: bucket 0 is below 1024 ns; then each power of two has 8 buckets of equal
 * width; the last one takes all from 2^34 ns (17 s) on.
 */
#define DCGYM_DELAY_FIRST_OCTAVE 10
#define DCGYM_DELAY_PARTS_BITS 3
#define DCGYM_DELAY_BUCKETS ((34 - DCGYM_DELAY_FIRST_OCTAVE) * (1 << DCGYM_DELAY_PARTS_BITS) + 2)

struct dcgym_delay_header {
    __u64 magic;
    __u64 version;
    __u64 n_links;
    __u64 heartbeat_ns; /* CLOCK_MONOTONIC */
    __u64 late_packets; /* in the histogram: all that were delivered */
    __u64 late_sum_ns;
    __u64 late_max_ns;
    __u64 late_histogram[DCGYM_DELAY_BUCKETS];
};

/* One direction of a link. A packet is what the kernel hands over, GSO packets whole. */
struct dcgym_delay_link {
    __u64 packets; /* that arrived, those included that were lost or did not fit */
    __u64 bytes;
    __u64 delivered;
    __u64 lost;     /* as the link's loss has it */
    __u64 overflow; /* did not fit into the memory of the link */
    __u64 rejected; /* the kernel did not take them back: the link was down */
    __u64 held;
    __u64 held_bytes;
    __u64 held_bytes_max;
};

#endif
