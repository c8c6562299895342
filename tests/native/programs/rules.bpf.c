// SPDX-License-Identifier: GPL-2.0-only
/* Every rule of rules.h in a BPF program, run once per hash by BPF_PROG_TEST_RUN. */
#include <linux/bpf.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>

#include "reservoir.h"
#include "rules.h"

#define CHOICES 1024

struct rules_case {
    __u32 rule;
    __u32 n;
    __u32 turn;
    __u32 cursor;
    __u64 random;
    __u64 now_ns;
    __u16 server[DCGYM_RULE_SERVERS];
    __u32 weight[DCGYM_RULE_SERVERS];
    __u32 ongoing[DCGYM_RULE_SERVERS];
    struct dcgym_alias alias[DCGYM_RULE_SERVERS];
    struct dcgym_score score[DCGYM_RULE_SERVERS];
    struct dcgym_turn turns[DCGYM_RULE_SERVERS];
    __u64 clock;
    __u64 hash[CHOICES];
    __u32 choice[CHOICES];
    struct dcgym_reservoir reservoir;
    struct dcgym_heard heard[DCGYM_RULE_SERVERS];
    struct dcgym_idle_queue idle;
    struct dcgym_prequal prequal;
    struct dcgym_prequal_places places;
    __u64 members[DCGYM_SET_WORDS(DCGYM_RULE_SERVERS)];
    struct dcgym_met met;
    __u64 c3_reset_ns;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct rules_case);
} cases SEC(".maps");

SEC("tc")
int choose(struct __sk_buff *skb) {
    const __u32 zero = 0;
    struct rules_case *test = bpf_map_lookup_elem(&cases, &zero);
    __u32 cursor;

    if (!test)
        return -1;
    cursor = test->cursor++ & (CHOICES - 1);
    struct dcgym_pool_view pool = {test->n, test->server, test->weight, test->alias};
    struct dcgym_state_view state = {&test->random, &test->turn,  test->ongoing, test->score,
                                     test->turns,   &test->clock, NULL};

    test->choice[cursor] =
        dcgym_choose(test->rule, &pool, &state, test->hash[cursor], test->now_ns);
    /* The choice as a sample, in the slot of the hash. */
    dcgym_reservoir_add(&test->reservoir, (__u32)test->hash[cursor], test->now_ns,
                        test->choice[cursor] * 1000ULL);
    return 0;
}

SEC("tc")
int choose_told(struct __sk_buff *skb) {
    const __u32 zero = 0;
    struct rules_case *test = bpf_map_lookup_elem(&cases, &zero);
    __u32 cursor;

    if (!test)
        return -1;
    cursor = test->cursor++ & (CHOICES - 1);
    struct dcgym_pool_view pool = {test->n, test->server, test->weight, test->alias};
    struct dcgym_told_view told = {test->heard,   &test->idle, &test->prequal,    &test->places,
                                   test->members, &test->met,  test->c3_reset_ns, 3};

    if (test->n && test->n <= DCGYM_RULE_SERVERS)
        test->choice[cursor] =
            dcgym_choose_told(test->rule, &pool, &told, test->ongoing, &test->random, test->now_ns);
    return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
