/* SPDX-License-Identifier: GPL-2.0-only */
/* What the balancer knows and keeps, but for the flow table. */
#ifndef DCGYM_BPF_L4LB_MAPS_H
#define DCGYM_BPF_L4LB_MAPS_H

const volatile struct dcgym_lb_constants constants = {.n_vips = 1};
volatile struct dcgym_lb_control control SEC(".bss.control");

/* The loader sets every max_entries before it loads the object. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_lb_target);
} targets SEC(".maps");

/* Where tunnels to the servers end, by the same index. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_lb_endpoint);
} tunnels SEC(".maps");

/* The loader's: the last generation of each target, also of those that nobody has. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} generations SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_lb_state);
} states SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_lb_region);
} regions SEC(".maps");

/* The pool in force, by CPU: taken over whole, so that no decision sees parts of two. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_lb_pool);
} pools SEC(".maps");

/* Where flows were last sent, in the table or not; newer flows overwrite older ones. */
struct witness {
    __u32 flow;
    __u8 server;
    __u8 device;
    __u16 generation;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct witness);
} witnesses SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, DCGYM_LB_COUNTERS);
    __type(key, __u32);
    __type(value, __u64);
} counters SEC(".maps");

struct ticker {
    struct bpf_timer timer;
    __u64 position; /* of the sweep */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct ticker);
} tickers SEC(".maps");

static __always_inline struct dcgym_lb_region *region_of(__u32 vip) {
    return bpf_map_lookup_elem(&regions, &vip);
}

static __always_inline struct dcgym_lb_state *state_of(__u32 vip) {
    return bpf_map_lookup_elem(&states, &vip);
}

static __always_inline void count(__u32 what) {
    __u64 *value = bpf_map_lookup_elem(&counters, &what);

    if (value)
        (*value)++;
}

#endif
