/* SPDX-License-Identifier: GPL-2.0-only */
/* The addresses and ports that are balanced, at the balancer and at its servers. */
#ifndef DCGYM_BPF_L4LB_VIPS_H
#define DCGYM_BPF_L4LB_VIPS_H

/* The loader sets max_entries before it loads the object. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, struct dcgym_lb_vip_key);
    __type(value, __u32);
} vips SEC(".maps");

#endif
