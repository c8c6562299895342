/* SPDX-License-Identifier: GPL-2.0-only */
/* Which packets a port marks: at a threshold, or by RED. */
#ifndef DCGYM_BPF_MARKING_H
#define DCGYM_BPF_MARKING_H

#include <stdbool.h>

#include "fabric.h"
#include "fabric_maps.h"

#define RED_ONE (1ull << 32)
#define RED_PACKET_BYTES 1500 /* whose time on the wire the port states */
#define MOST_IDLE_PACKETS 0xffffffffull

/* Step: mark_probability as soon as this packet takes the queue beyond the threshold. */
static __always_inline bool exceeds_step(const struct dcgym_port_config *port, __u64 after) {
    if (after <= port->mark_min_bytes)
        return false;
    if (port->mark_probability >= DCGYM_PROBABILITY_ONE)
        return true;
    return (bpf_get_prandom_u32() & (DCGYM_PROBABILITY_ONE - 1)) < port->mark_probability;
}

/* base^exponent; both sides have 32 fractional bits, and base is below 1. */
static __always_inline __u64 power(__u64 base, __u32 exponent) {
    __u64 result = RED_ONE;

    for (int i = 0; i < 32; i++) {
        if (exponent & 1)
            result = (result * base) >> 32;
        base = (base * base) >> 32;
        exponent >>= 1;
    }
    return result;
}

/* The average falls in an idle time as if as many packets as it had room for had met no queue. */
static __always_inline void decay(const struct dcgym_port_config *port, struct dcgym_red *red,
                                  __u64 now_ns) {
    __u64 packets, kept;

    if (now_ns <= red->busy_until_ns || !port->mark_packet_ns)
        return;
    packets = (now_ns - red->busy_until_ns) / port->mark_packet_ns;
    kept = (__u64)(DCGYM_PROBABILITY_ONE - port->mark_weight) << 16;
    kept = power(kept, packets > MOST_IDLE_PACKETS ? MOST_IDLE_PACKETS : packets);
    red->average = ((red->average >> 16) * kept) >> 16;
}

static __always_inline void average(const struct dcgym_port_config *port, struct dcgym_red *red,
                                    __u64 before, __u64 bytes) {
    __u64 now_ns = bpf_ktime_get_ns();
    __s64 change = (__s64)(before << DCGYM_RED_FRACTION_BITS) - (__s64)red->average;

    if (before || port->mark_weight == DCGYM_PROBABILITY_ONE)
        red->average += (change * port->mark_weight) >> 16;
    else
        decay(port, red, now_ns);
    red->busy_until_ns = now_ns + (before + bytes) * port->mark_packet_ns / RED_PACKET_BYTES;
}

/*
 * RED (Floyd and Jacobson 1993): the average of the queues that packets met decides, and marks are
 * spread evenly: p_b grows from 0 at min to mark_probability at max, and the packet that comes
 * `unmarked` packets after the last mark is marked with p_b / (1 - unmarked * p_b). CPUs that meet
 * at one port may lose an update of the average to each other, which the next packet makes good.
 */
static __always_inline bool exceeds_red(const struct dcgym_port_config *port, __u32 port_id,
                                        __u64 before, __u64 bytes) {
    struct dcgym_red *red = bpf_map_lookup_elem(&red_states, &port_id);
    __u64 queue, base, spent;

    if (!red)
        return false;
    average(port, red, before, bytes);
    queue = red->average >> DCGYM_RED_FRACTION_BITS;
    if (queue < port->mark_min_bytes) {
        red->unmarked = 0;
        return false;
    }
    base = ((__u64)port->mark_probability << 16) * (queue - port->mark_min_bytes) /
           (port->mark_max_bytes - port->mark_min_bytes);
    spent = red->unmarked * base;
    if (queue < port->mark_max_bytes && spent + base < RED_ONE &&
        bpf_get_prandom_u32() * (RED_ONE - spent) >= base << 32) {
        red->unmarked++;
        return false;
    }
    red->unmarked = 0;
    return true;
}

static __always_inline bool should_mark(const struct dcgym_port_config *port, __u32 port_id,
                                        __u64 before, __u64 bytes) {
    if (!port->mark_probability)
        return false;
    if (port->mark_max_bytes == port->mark_min_bytes)
        return exceeds_step(port, before + bytes);
    return exceeds_red(port, port_id, before, bytes);
}

#endif
