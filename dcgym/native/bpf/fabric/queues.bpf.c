// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the root queues of many interfaces, in any namespace, in one system call and without the
 * routing lock (RTNL), which all emulators of a machine and every change of a limit share.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel_queue.h"
#include "queues.h"

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;

/* The loader sets both sizes before it loads the object. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} devices SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_queue);
} queues SEC(".maps");

const volatile __u32 n_queues = 1;

/* Run once for each interface by BPF_PROG_TEST_RUN, which looks it up: the mark is its number. */
SEC("tc")
int queues_learn(struct __sk_buff *skb) {
    struct sk_buff *kernel_skb = bpf_cast_to_kern_ctx(skb);
    __u32 slot = skb->mark;
    __u64 *device = bpf_map_lookup_elem(&devices, &slot);

    if (!device)
        return TC_ACT_SHOT;
    *device = (__u64)kernel_skb->dev;
    return TC_ACT_OK;
}

static long read_one(__u32 slot, void *unused) {
    struct dcgym_queue *out = bpf_map_lookup_elem(&queues, &slot);
    __u64 *device = bpf_map_lookup_elem(&devices, &slot);
    struct net_device *dev;
    struct Qdisc *qdisc;

    if (!out || !device || !*device)
        return 0;
    /* The interfaces live as long as the emulator. Were one gone, a load would fault and give 0. */
    dev = bpf_rdonly_cast((void *)*device, bpf_core_type_id_kernel(struct net_device));
    qdisc = dev->qdisc;
    out->tx_bytes = *(volatile __u64 *)&qdisc->bstats.bytes;
    out->tx_packets = *(volatile __u64 *)&qdisc->bstats.packets;
    out->backlog_bytes = qdisc->qstats.backlog;
    out->drops = qdisc->qstats.drops;
    out->overlimits = qdisc->qstats.overlimits;
    return 0;
}

SEC("syscall")
int queues_read(void *context) {
    bpf_loop(n_queues, read_one, NULL, 0);
    return 0;
}

char LICENSE[] SEC("license") = "GPL";
