/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Shared memory of a VIP whose servers have several devices: what the devices report, and how one
 * is chosen. The single definition of the layout; dcgym.monitors.balancer.devices is its NumPy
 * view. Policies are published as pools are (balancing.h); reports are written in place.
 */
#ifndef DCGYM_BALANCER_DEVICES_H
#define DCGYM_BALANCER_DEVICES_H

#include "balancing.h"
#include "device_rules.h"

/* Which devices take new connections, and by which rule. Servers of the same weights share a ring.
 */
struct dcgym_lb_device_policy {
    __u64 sequence;
    __u64 time_ns;
    __u64 max_age_ns;               /* of reports; 0: any age will do */
    __u32 rule;                     /* enum dcgym_device_rule */
    __u32 threshold;                /* prt: per cent */
    __u8 present[DCGYM_LB_SERVERS]; /* bit d: device d takes new connections */
    __u8 ring_of[DCGYM_LB_SERVERS];
    __u8 by_bits[1 << DCGYM_DEVICES];
    __u32 weight[DCGYM_LB_SERVERS][DCGYM_DEVICES];
    __u32 ring_slots[DCGYM_LB_SERVERS]; /* in use, by ring */
    __u8 ring[DCGYM_LB_SERVERS][DCGYM_RING_SLOTS];
};

/* What the data plane keeps of a server's devices. */
struct dcgym_lb_server_devices {
    struct dcgym_device heard[DCGYM_DEVICES];
    struct dcgym_device_turns turns;
    __u64 connections[DCGYM_DEVICES]; /* placed there by the rule */
    __u64 packets[DCGYM_DEVICES];
};

struct dcgym_lb_devices {
    struct dcgym_lb_device_policy policies[DCGYM_LB_BUFFERS];
    struct dcgym_lb_server_devices servers[DCGYM_LB_SERVERS];
};

#endif
