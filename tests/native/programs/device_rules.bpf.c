// SPDX-License-Identifier: GPL-2.0-only
/* Every rule of device_rules.h in a BPF program, run once per request by BPF_PROG_TEST_RUN. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "device_rules.h"

#define CHOICES 1024

struct device_case {
    __u32 rule;
    __u32 ring_slots;
    __u32 threshold;
    __u32 cursor;
    __u64 random;
    __u64 now_ns;
    __u64 max_age_ns;
    __u32 present;
    __u32 weight[DCGYM_DEVICES];
    __u32 unused;
    struct dcgym_device device[DCGYM_DEVICES];
    struct dcgym_device_turns turns;
    __u8 by_bits[1 << DCGYM_DEVICES];
    __u8 ring[DCGYM_RING_SLOTS];
    __u32 choice[CHOICES];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct device_case);
} cases SEC(".maps");

SEC("tc")
int choose(struct __sk_buff *skb) {
    const __u32 zero = 0;
    struct device_case *test = bpf_map_lookup_elem(&cases, &zero);
    __u32 cursor;

    if (!test)
        return -1;
    cursor = test->cursor++ & (CHOICES - 1);
    struct dcgym_device_view view = {test->device,  test->weight,     test->by_bits,
                                     test->ring,    test->ring_slots, test->threshold,
                                     test->present, test->max_age_ns, test->now_ns};

    test->choice[cursor] = dcgym_device_choose(test->rule, &view, &test->turns, &test->random);
    return 0;
}

char _license[] SEC("license") = "GPL";
