/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * How a switch chooses among equal-cost ports: what the BPF switch and the packet twin share, so
 * that equal inputs give equal decisions.
 *
 * Every rule draws through the group's alias table, so that weights hold for all of them: a port of
 * weight 0 gets nothing, and equal weights give the rule as it was published.
 */
#ifndef DCGYM_PATH_RULES_H
#define DCGYM_PATH_RULES_H

#include "elapsed.h"
#include "fabric.h"
#include "splitmix.h"

enum dcgym_path_rule {
#define DCGYM_ROW(symbol, ...) DCGYM_PATH_##symbol,
#include "tables/path_rules.h"
    DCGYM_PATH_RULES,
};

/* DRILL(d, m) of Ghorbani et al.: d queues at random and the m best of before; theirs is (2, 1). */
#define DCGYM_DRILL_SAMPLES 2
#define DCGYM_DRILL_QUEUES 3

/* A queue that nobody empties, or none at all. */
#define DCGYM_NO_QUEUE 0xffffffffffffffffull

/* Two IPv6 addresses, both ports, the protocol. IPv4 fills the first word of each address. */
#define DCGYM_FLOW_WORDS 10

/* MurmurHash3 x86_32 (Appleby, public domain) over whole words; the salt is its seed. */
DCGYM_INLINE __u32 dcgym_hash_word(__u32 hash, __u32 word) {
    word *= 0xcc9e2d51u;
    word = (word << 15) | (word >> 17);
    word *= 0x1b873593u;
    hash ^= word;
    hash = (hash << 13) | (hash >> 19);
    return hash * 5 + 0xe6546b64u;
}

DCGYM_INLINE __u32 dcgym_hash_end(__u32 hash) {
    hash ^= DCGYM_FLOW_WORDS * sizeof(__u32);
    hash ^= hash >> 16;
    hash *= 0x85ebca6bu;
    hash ^= hash >> 13;
    hash *= 0xc2b2ae35u;
    return hash ^ (hash >> 16);
}

/* The high word is the slot of a uniform draw, the low word the uniform draw within it. */
DCGYM_INLINE __u64 dcgym_slot_draw(__u32 draw, __u32 size) {
    return (__u64)draw * size;
}

DCGYM_INLINE __u32 dcgym_port_of(const struct dcgym_group_slot *slot, __u32 within) {
    return within < slot->threshold ? slot->ifindex : slot->alias;
}

/* A flowlet ends after a gap: no packet of it is under way that the next one could overtake. */
DCGYM_INLINE int dcgym_flowlet_ended(__u64 now_ns, __u64 last_ns, __u64 gap_ns) {
    return gap_ns && dcgym_elapsed_ns(now_ns, last_ns) > gap_ns;
}

/* What a switch does with a packet where it remembers flows, each switch by its own memory. */
enum dcgym_flow_choice {
    DCGYM_FLOW_HASHED, /* takes the port of its hash */
    DCGYM_FLOW_KEPT,   /* takes the remembered port */
    DCGYM_FLOW_DRAWN,  /* begins a flowlet: takes a port at random */
};

/* `is_known`: the switch remembers a port for the flow, and that is a member of the group yet. */
DCGYM_INLINE enum dcgym_flow_choice dcgym_choose_for_flow(int is_known, __u64 now_ns, __u64 last_ns,
                                                          __u64 gap_ns) {
    if (!is_known)
        return DCGYM_FLOW_HASHED;
    return dcgym_flowlet_ended(now_ns, last_ns, gap_ns) ? DCGYM_FLOW_DRAWN : DCGYM_FLOW_KEPT;
}

struct dcgym_drill_samples {
    __u32 slots[DCGYM_DRILL_SAMPLES]; /* they differ where there are two */
    __u32 within[DCGYM_DRILL_SAMPLES];
};

DCGYM_INLINE struct dcgym_drill_samples dcgym_drill_sample(__u64 *random, __u32 size) {
    struct dcgym_drill_samples samples;
    __u64 within;

    dcgym_two_of(random, size, &samples.slots[0], &samples.slots[1]);
    within = dcgym_random(random);
    samples.within[0] = (__u32)(within >> 32);
    samples.within[1] = (__u32)within;
    return samples;
}

/*
 * The shortest of the sampled queues and the remembered one, which comes last. Of equal ones the
 * first sample wins, so that a switch without queues spreads evenly: our choice.
 */
DCGYM_INLINE __u32 dcgym_drill_shortest(const __u64 queue_bytes[DCGYM_DRILL_QUEUES]) {
    __u32 shortest = 0;

    if (queue_bytes[1] < queue_bytes[shortest])
        shortest = 1;
    if (queue_bytes[2] < queue_bytes[shortest])
        shortest = 2;
    return shortest;
}

#endif
