/* SPDX-License-Identifier: GPL-2.0-only */
/* Which member of its group a flow takes: hash, weighted groups, flow table, flowlets, spray. */
#ifndef DCGYM_BPF_FLOW_H
#define DCGYM_BPF_FLOW_H

#include "common/barrier.h"
#include "common/labels.h"
#include "fabric.h"
#include "path_rules.h"

/* A writer takes longer for a replacement than we for a read: 8 in a row need a hostile one. */
#define GROUP_READ_RETRIES 8

const volatile struct dcgym_fabric_constants constants = {.n_hosts = 1};
volatile struct dcgym_fabric_control control SEC(".bss.control");

/* The loader sets every max_entries before it loads the object. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_group);
} groups SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1);
    __type(key, struct dcgym_flow_id);
    __type(value, struct dcgym_flow);
} flows SEC(".maps");

/* State of the draws; each CPU has its own, so that none waits for another. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} path_randoms SEC(".maps");

static __always_inline __u64 *path_random(void) {
    const __u32 only = 0;

    return bpf_map_lookup_elem(&path_randoms, &only);
}

/* Fields that keep a flow on one path: those of struct dcgym_labelled_flow, and one more. */
struct flow_key {
    __u32 source[4];
    __u32 destination[4];
    __u32 ports;
    __u32 protocol;
    __u32 begins; /* TCP's SYN: what the same fields meant before is over; not hashed */
};

/* What a group's table in force says about one packet. */
struct draw {
    __u32 hash;
    __u32 ifindex;
    __u32 generation;
    __u32 size;
};

static __always_inline __u32 hash_flow(const struct flow_key *key, __u32 salt) {
    const __u32 *words = (const __u32 *)key;
    __u32 hash = salt;

#pragma unroll
    for (int i = 0; i < DCGYM_FLOW_WORDS; i++)
        hash = dcgym_hash_word(hash, words[i]);
    return dcgym_hash_end(hash);
}

static __always_inline __u32 label_of(const struct flow_key *key) {
    const struct dcgym_label *entry;

    if (!constants.has_labels)
        return 0;
    entry = bpf_map_lookup_elem(&labels, key);
    return entry ? entry->label : 0;
}

static __always_inline __u32 pick(const struct dcgym_group_table *table, __u32 size, __u32 draw) {
    __u64 product = dcgym_slot_draw(draw, size);
    __u32 index = product >> 32;

    if (index >= DCGYM_GROUP_MEMBERS)
        return 0;
    return dcgym_port_of(&table->slots[index], (__u32)product);
}

static __always_inline __u64 version_of(const struct dcgym_group *group) {
    return *(const volatile __u64 *)&group->version;
}

/* True if nothing read since `version` was taken can come from two tables. */
static __always_inline bool is_unchanged(const struct dcgym_group *group, __u64 version) {
    read_barrier();
    return version_of(group) == version;
}

static __always_inline bool draw_by_hash(const struct dcgym_group *group,
                                         const struct flow_key *key, struct draw *draw) {
    for (int i = 0; i < GROUP_READ_RETRIES; i++) {
        __u64 version = version_of(group);
        const struct dcgym_group_table *table = &group->tables[version & 1];

        read_barrier();
        draw->generation = table->generation;
        draw->size = table->size;
        /* Most groups have one member, whatever the hash is. */
        draw->hash = draw->size > 1 ? hash_flow(key, table->salt ^ label_of(key)) : 0;
        draw->ifindex = pick(table, draw->size, draw->hash);
        if (is_unchanged(group, version))
            return true;
    }
    return false;
}

static __always_inline bool draw_at_random(const struct dcgym_group *group, struct draw *draw) {
    __u64 *state = path_random();
    __u32 random;

    if (!state)
        return false;
    random = dcgym_random(state) >> 32;
    for (int i = 0; i < GROUP_READ_RETRIES; i++) {
        __u64 version = version_of(group);
        const struct dcgym_group_table *table = &group->tables[version & 1];

        read_barrier();
        draw->generation = table->generation;
        draw->ifindex = pick(table, table->size, random);
        if (is_unchanged(group, version))
            return true;
    }
    return false;
}

struct search {
    const struct dcgym_group_table *table;
    __u32 ifindex;
    bool found;
};

static long search_slot(__u32 index, struct search *search) {
    if (index >= DCGYM_GROUP_MEMBERS || index >= search->table->size)
        return 1;
    search->found = search->table->slots[index].ifindex == search->ifindex;
    return search->found;
}

/* Only after a change of members or of the route: looks the member up, with its new generation. */
static __always_inline bool is_member(const struct dcgym_group *group, __u32 ifindex,
                                      __u32 *generation) {
    for (int i = 0; i < GROUP_READ_RETRIES; i++) {
        __u64 version = version_of(group);
        const struct dcgym_group_table *table = &group->tables[version & 1];
        struct search search = {table, ifindex};

        read_barrier();
        *generation = table->generation;
        /* A loop that the verifier walks once, not once an index. */
        bpf_loop(DCGYM_GROUP_MEMBERS, search_slot, &search, 0);
        if (is_unchanged(group, version))
            return search.found;
    }
    return false;
}

static __always_inline __u64 make_pin(__u32 ifindex, __u32 generation) {
    return (__u64)generation << 32 | ifindex;
}

/*
 * The member that a known flow stays with, 0 if it has to choose anew. LRU elements are recycled
 * under readers, so the word may be another flow's: its generation then differs, and the members
 * are asked.
 */
static __always_inline __u32 kept_member(const struct dcgym_group *group, struct dcgym_flow *flow,
                                         __u32 generation) {
    __u64 pin = *(volatile __u64 *)&flow->pin;

    if (flow->epoch != control.epoch)
        return 0;
    if (pin >> 32 == generation)
        return (__u32)pin;
    if (!is_member(group, (__u32)pin, &generation))
        return 0;
    *(volatile __u64 *)&flow->pin = make_pin((__u32)pin, generation);
    return (__u32)pin;
}

static __always_inline void remember(struct dcgym_flow *flow, const struct dcgym_flow_id *id,
                                     const struct draw *draw, __u64 now_ns) {
    struct dcgym_flow fresh = {
        .pin = make_pin(draw->ifindex, draw->generation),
        .last_ns = now_ns,
        .epoch = control.epoch,
    };

    if (!flow) {
        bpf_map_update_elem(&flows, id, &fresh, BPF_ANY);
        return;
    }
    flow->epoch = fresh.epoch;
    flow->last_ns = now_ns;
    *(volatile __u64 *)&flow->pin = fresh.pin;
}

/*
 * A flow keeps the member it began with while that is a member, whatever the weights say since.
 * With letflow it draws again, at random, once a flowlet of it has ended.
 */
static __always_inline __u32 pinned_member(const struct dcgym_group *group, __u32 switch_id,
                                           const struct flow_key *key, struct draw *draw) {
    struct dcgym_flow_id id = {switch_id, draw->hash};
    struct dcgym_flow *flow = bpf_map_lookup_elem(&flows, &id);
    __u64 gap_ns = constants.path_rule == DCGYM_PATH_LETFLOW ? control.flowlet_gap_ns : 0;
    __u64 now_ns = gap_ns ? bpf_ktime_get_ns() : 0;
    __u32 kept = flow && !key->begins ? kept_member(group, flow, draw->generation) : 0;
    __u64 last_ns = kept ? flow->last_ns : 0;
    enum dcgym_flow_choice choice = dcgym_choose_for_flow(kept != 0, now_ns, last_ns, gap_ns);

    if (choice == DCGYM_FLOW_DRAWN && !draw_at_random(group, draw))
        return kept;
    if (choice == DCGYM_FLOW_KEPT) {
        if (gap_ns)
            flow->last_ns = now_ns;
        return kept;
    }
    remember(flow, &id, draw, now_ns);
    return draw->ifindex;
}

#endif
