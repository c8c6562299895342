/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's types from a packet to the queue of its device, as far as our programs read them. */
#ifndef DCGYM_BPF_KERNEL_QUEUE_H
#define DCGYM_BPF_KERNEL_QUEUE_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* Only the members read: CO-RE relocates them, so no vmlinux.h is needed. */
#define CORE __attribute__((preserve_access_index))

struct u64_stats {
    __u64 value;
};

struct gnet_stats_basic_sync {
    struct u64_stats bytes;
    struct u64_stats packets;
} CORE;

struct gnet_stats_queue {
    __u32 backlog;
    __u32 drops;
    __u32 overlimits;
} CORE;

struct Qdisc {
    struct gnet_stats_basic_sync bstats;
    struct gnet_stats_queue qstats;
} CORE;

struct net_device {
    struct Qdisc *qdisc;
    unsigned long state;
} CORE;

struct sk_buff {
    struct net_device *dev;
} CORE;

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;

#endif
