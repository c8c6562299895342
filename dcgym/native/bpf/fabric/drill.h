/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DRILL (Ghorbani et al., SIGCOMM 2017): each packet takes the shortest of two queues at random and
 * the one that was the shortest last. Queues are those of the kernel, read as they are now.
 */
#ifndef DCGYM_BPF_DRILL_H
#define DCGYM_BPF_DRILL_H

#include <bpf/bpf_core_read.h>

#include "flow.h"
#include "kernel_queue.h"

/* Bits of net_device.state (enum netdev_state_t of <linux/netdevice.h>). */
#define LINK_STARTED 0x1
#define LINK_WITHOUT_CARRIER 0x4

/* The kernel's interface by ifindex, 0 where none is attached, as at 0; of the rule drill only. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} devices SEC(".maps");

/*
 * By group: the port that was the best and, above it, the low word of the version of the table that
 * it was drawn from, since weights and members may change. Each CPU is an engine of its own, as
 * the paper has it.
 */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} drill_memory SEC(".maps");

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;

/* A port without a link has a short queue: nobody fills it, and nobody empties it. */
static __always_inline __u64 queued_bytes(__u32 ifindex) {
    __u64 *device = bpf_map_lookup_elem(&devices, &ifindex);
    struct net_device *dev;

    if (!device || !*device)
        return DCGYM_NO_QUEUE;
    /* The interfaces live as long as the emulator. Were one gone, a load would fault and give 0. */
    dev = bpf_rdonly_cast((void *)*device, bpf_core_type_id_kernel(struct net_device));
    if (!(dev->state & LINK_STARTED) || dev->state & LINK_WITHOUT_CARRIER)
        return DCGYM_NO_QUEUE;
    return dev->qdisc->qstats.backlog;
}

static __always_inline __u32 sampled_port(const struct dcgym_group_table *table, __u32 slot,
                                          __u32 within) {
    return slot < DCGYM_GROUP_MEMBERS ? dcgym_port_of(&table->slots[slot], within) : 0;
}

/* The two ports of the samples; false if the group changed under every attempt. */
static __always_inline bool sample_ports(const struct dcgym_group *group, __u64 *random,
                                         __u64 *seen, __u32 ports[DCGYM_DRILL_SAMPLES]) {
    for (int i = 0; i < GROUP_READ_RETRIES; i++) {
        __u64 version = version_of(group);
        const struct dcgym_group_table *table = &group->tables[version & 1];
        struct dcgym_drill_samples samples;

        read_barrier();
        samples = dcgym_drill_sample(random, table->size);
        ports[0] = sampled_port(table, samples.slots[0], samples.within[0]);
        ports[1] = sampled_port(table, samples.slots[1], samples.within[1]);
        *seen = version;
        if (is_unchanged(group, version))
            return true;
    }
    return false;
}

/*
 * The port that a packet takes, 0 where the group has none, or minus a drop reason. Not inlined:
 * its loops would be checked once for every way that leads here.
 */
__noinline int drill_port(__u32 group_id) {
    struct dcgym_group *group = bpf_map_lookup_elem(&groups, &group_id);
    __u64 *memory = bpf_map_lookup_elem(&drill_memory, &group_id);
    __u64 *random = path_random(), version = 0;
    __u64 queues[DCGYM_DRILL_QUEUES];
    __u32 ports[DCGYM_DRILL_SAMPLES] = {}, best, remembered;

    if (!group || !memory || !random)
        return 0;
    if (!sample_ports(group, random, &version, ports))
        return -DCGYM_DROP_GROUP_BUSY;
    remembered = *memory >> 32 == (__u32)version ? (__u32)*memory : 0;
    queues[0] = queued_bytes(ports[0]);
    queues[1] = queued_bytes(ports[1]);
    queues[2] = queued_bytes(remembered);
    best = dcgym_drill_shortest(queues);
    if (best == 0)
        remembered = ports[0];
    else if (best == 1)
        remembered = ports[1];
    *memory = version << 32 | remembered;
    return remembered;
}

#endif
