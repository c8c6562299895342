/* SPDX-License-Identifier: GPL-2.0-only */
/* The second level: which device of the chosen server gets a new connection (device_rules.h). */
#ifndef DCGYM_BPF_L4LB_DEVICES_H
#define DCGYM_BPF_L4LB_DEVICES_H

/* The loader sets max_entries before it loads the object: 1 where servers have no devices. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_lb_devices);
} devices SEC(".maps");

static __always_inline struct dcgym_lb_server_devices *devices_of(__u32 vip, __u32 server) {
    struct dcgym_lb_devices *found = bpf_map_lookup_elem(&devices, &vip);

    return found ? &found->servers[server & (DCGYM_LB_SERVERS - 1)] : NULL;
}

/*
 * Where a server or one of its devices lies in `targets`, `tunnels`, `generations` and `agents`.
 * The processors are device 0. The constant is known to the verifier: pools without devices run
 * none of what is for devices.
 */
static __always_inline __u32 target_index(__u32 vip, __u32 server, __u32 device) {
    const __u32 index = vip * DCGYM_LB_SERVERS + (server & (DCGYM_LB_SERVERS - 1));

    return constants.devices ? index * DCGYM_DEVICES + (device & (DCGYM_DEVICES - 1)) : index;
}

/* Server and device in one word; without devices the server's number. */
static __always_inline __u16 home_of(__u32 server, __u32 device) {
    return constants.devices ? device * DCGYM_LB_SERVERS + server : server;
}

static __always_inline __u32 server_at(__u16 home) {
    return home & (DCGYM_LB_SERVERS - 1);
}

static __always_inline __u32 device_at(__u16 home) {
    return constants.devices ? home / DCGYM_LB_SERVERS : 0;
}

/* What a rule looks at, and keeps. */
struct device_choice {
    struct dcgym_device_view view;
    struct dcgym_device_turns *turns;
    __u64 *random;
};

static __always_inline bool look_at_devices(__u32 vip, __u32 server, __u32 buffer, __u64 now_ns,
                                            struct device_choice *choice) {
    struct dcgym_lb_devices *known = bpf_map_lookup_elem(&devices, &vip);
    struct dcgym_lb_state *state = state_of(vip);
    struct dcgym_lb_device_policy *policy;
    struct dcgym_lb_server_devices *of;
    const __u32 *weight;
    __u32 ring;

    if (!known || !state)
        return false;
    server &= DCGYM_LB_SERVERS - 1;
    policy = &known->policies[buffer % DCGYM_LB_BUFFERS];
    weight = policy->weight[server];
    of = &known->servers[server];
    /* Else every access gets a pointer of its own from the block's begin, kept on the stack. */
    barrier_var(policy);
    barrier_var(weight);
    barrier_var(of);
    ring = policy->ring_of[server] & (DCGYM_LB_SERVERS - 1);
    choice->view = (struct dcgym_device_view){
        .device = of->heard,
        .weight = weight,
        .by_bits = policy->by_bits,
        .ring = policy->ring[ring],
        .ring_slots = policy->ring_slots[ring],
        .threshold = policy->threshold,
        .present = policy->present[server],
        .max_age_ns = policy->max_age_ns,
        .now_ns = now_ns,
    };
    choice->turns = &of->turns;
    choice->random = &state->random;
    return true;
}

/* Rules by themselves, not inlined: each keeps little on the stack, and the verifier walks it once.
 */
#define DEVICE_RULE_APART(name, rule)                                                              \
    __noinline __u32 name(__u32 vip, __u32 server, __u32 buffer, __u64 now_ns) {                   \
        struct device_choice choice;                                                               \
                                                                                                   \
        if (!look_at_devices(vip, server, buffer, now_ns, &choice))                                \
            return DCGYM_NO_DEVICE;                                                                \
        return dcgym_device_choose(rule, &choice.view, choice.turns, choice.random);               \
    }

DEVICE_RULE_APART(choose_processors, DCGYM_DEVICE_RULE_SERVER_ONLY)
DEVICE_RULE_APART(choose_device_in_turn, DCGYM_DEVICE_RULE_ECMP)
DEVICE_RULE_APART(choose_by_ring, DCGYM_DEVICE_RULE_WRR)
DEVICE_RULE_APART(choose_by_idle_share, DCGYM_DEVICE_RULE_DYNAMIC_WRR)
DEVICE_RULE_APART(choose_least_load, DCGYM_DEVICE_RULE_LUR)
DEVICE_RULE_APART(choose_shortest_queue, DCGYM_DEVICE_RULE_JSQ)
DEVICE_RULE_APART(choose_by_priority, DCGYM_DEVICE_RULE_PRT)
DEVICE_RULE_APART(choose_by_busy_bits, DCGYM_DEVICE_RULE_P4MITE)
DEVICE_RULE_APART(choose_of_two, DCGYM_DEVICE_RULE_PO2)

static __always_inline __u32 choose_by(__u32 rule, __u32 vip, __u32 server, __u32 buffer,
                                       __u64 now_ns) {
    switch (rule) {
    case DCGYM_DEVICE_RULE_ECMP:
        return choose_device_in_turn(vip, server, buffer, now_ns);
    case DCGYM_DEVICE_RULE_WRR:
        return choose_by_ring(vip, server, buffer, now_ns);
    case DCGYM_DEVICE_RULE_DYNAMIC_WRR:
        return choose_by_idle_share(vip, server, buffer, now_ns);
    case DCGYM_DEVICE_RULE_LUR:
        return choose_least_load(vip, server, buffer, now_ns);
    case DCGYM_DEVICE_RULE_JSQ:
        return choose_shortest_queue(vip, server, buffer, now_ns);
    case DCGYM_DEVICE_RULE_PRT:
        return choose_by_priority(vip, server, buffer, now_ns);
    case DCGYM_DEVICE_RULE_P4MITE:
        return choose_by_busy_bits(vip, server, buffer, now_ns);
    case DCGYM_DEVICE_RULE_PO2:
        return choose_of_two(vip, server, buffer, now_ns);
    default:
        return choose_processors(vip, server, buffer, now_ns);
    }
}

__noinline int is_blind(__u32 rule, __u32 vip, __u32 server, __u32 buffer, __u64 now_ns) {
    struct device_choice choice;

    return look_at_devices(vip, server, buffer, now_ns, &choice) &&
           dcgym_device_is_blind(rule, &choice.view);
}

/* Whether the rule had nothing to go by, and fell back on the first device. */
static __always_inline bool fell_back(const struct dcgym_lb_device_policy *policy, __u32 found,
                                      __u32 vip, __u32 server, __u32 buffer, __u64 now_ns) {
    const __u32 present = policy->present[server & (DCGYM_LB_SERVERS - 1)];

    if (!policy->max_age_ns && policy->rule != DCGYM_DEVICE_RULE_WRR)
        return false;
    return (present & (0 - present)) == 1U << (found & (DCGYM_DEVICES - 1)) &&
           is_blind(policy->rule, vip, server, buffer, now_ns);
}

static __always_inline __u32 newest_buffer(const struct dcgym_lb_devices *from) {
    __u64 newest = 0;

    for (int i = 0; i < DCGYM_LB_BUFFERS; i++) {
        __u64 found = *(const volatile __u64 *)&from->policies[i].sequence;

        newest = found > newest ? found : newest;
    }
    read_barrier();
    return newest % DCGYM_LB_BUFFERS;
}

/*
 * The device for a new connection. A policy is read where it lies. Its buffer is written again
 * after three more changes; a decision that takes so long may see parts of two, and still gets a
 * device that its caller looks at as at any other. Two CPUs that choose at the same time may take
 * the same turn.
 */
__noinline __u32 choose_device(__u32 vip, __u32 server, __u64 now_ns) {
    struct dcgym_lb_devices *known = bpf_map_lookup_elem(&devices, &vip);
    struct dcgym_lb_device_policy *policy;
    __u32 buffer, found;

    if (!known)
        return 0;
    buffer = newest_buffer(known);
    policy = &known->policies[buffer % DCGYM_LB_BUFFERS];
    found = choose_by(policy->rule, vip, server, buffer, now_ns);
    if (fell_back(policy, found, vip, server, buffer, now_ns))
        count(DCGYM_LB_DEVICE_FALLBACKS);
    return found < DCGYM_DEVICES ? found : 0;
}

static __always_inline void count_connection(__u32 vip, __u32 server, __u32 device) {
    struct dcgym_lb_server_devices *of = devices_of(vip, server);

    barrier_var(device);
    if (of)
        __sync_fetch_and_add(&of->connections[device & (DCGYM_DEVICES - 1)], 1);
}

static __always_inline void count_device_packet(__u32 vip, __u32 server, __u32 device) {
    struct dcgym_lb_server_devices *of = devices_of(vip, server);

    barrier_var(device);
    if (of)
        __sync_fetch_and_add(&of->packets[device & (DCGYM_DEVICES - 1)], 1);
}

#endif
