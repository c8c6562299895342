/* SPDX-License-Identifier: GPL-2.0-only */
/* What the switches' programs share with their loader, and the count of drops. */
#ifndef DCGYM_BPF_FABRIC_MAPS_H
#define DCGYM_BPF_FABRIC_MAPS_H

#include <linux/pkt_cls.h>

#include "fabric.h"

/* The loader sets every max_entries before it loads the object. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_port_config);
} ports SEC(".maps");

/* group id + 1 at [switch_id * constants.n_hosts + host number - 1]; 0: no route */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} routes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_port_counters);
} counters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_red);
} red_states SEC(".maps");

/* bytes at [port_id * n_hosts + number of the source host - 1] */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} flow_bytes SEC(".maps");

/* By switch: up to when its answers have used its limit up (CLOCK_MONOTONIC). */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} answers SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, DCGYM_DROP_REASONS);
    __type(key, __u32);
    __type(value, __u64);
} drops SEC(".maps");

static __always_inline int drop(__u32 reason) {
    __u64 *count = bpf_map_lookup_elem(&drops, &reason);

    if (count)
        (*count)++;
    return TC_ACT_SHOT;
}

#endif
