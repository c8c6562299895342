/* SPDX-License-Identifier: GPL-2.0-only */
/* Which server a packet goes to: by table, by the number that it bears, by rule, by hash. */
#ifndef DCGYM_BPF_L4LB_ROUTE_H
#define DCGYM_BPF_L4LB_ROUTE_H

/* Where a packet goes: a target's word, 0 if nowhere, and then the reason. */
struct decision {
    __u64 target;
    __u32 server;
    __u32 device; /* of the server; 0 where it has but one */
    __u32 reason;
};

static __always_inline struct decision nowhere(__u32 reason) {
    return (struct decision){.reason = reason};
}

/* The bucket of a flow, NULL if flows are not tracked. */
static __always_inline struct bucket *bucket_of(const struct arrival *arrival) {
    __u32 index = arrival->digest & constants.bucket_mask;

    return constants.tracks ? bpf_map_lookup_elem(&buckets, &index) : NULL;
}

static __always_inline __u64 target_of(__u32 vip, __u32 server, __u32 device) {
    __u32 index = target_index(vip, server, device);
    volatile __u64 *target = bpf_map_lookup_elem(&targets, &index);

    return target && server < DCGYM_LB_SERVERS ? *target : 0; /* in one load: it may change */
}

static __always_inline __u16 generation_of(__u64 target) {
    struct dcgym_lb_target parts;

    __builtin_memcpy(&parts, &target, sizeof(parts));
    return parts.generation;
}

static __always_inline struct decision decide(__u32 vip, __u32 server, __u32 device) {
    __u64 target = target_of(vip, server, device);

    if (!generation_of(target))
        return nowhere(DCGYM_LB_DROP_NO_SERVER);
    return (struct decision){.target = target, .server = server, .device = device};
}

/* Where a flow of the table is at home. */
static __always_inline struct decision decide_home(__u32 vip, __u16 home) {
    return decide(vip, server_at(home), device_at(home));
}

/* The server's processors, for what no table remembers: a device's turn cannot be found again. */
static __always_inline struct decision decide_by_hash(const struct arrival *arrival,
                                                      const struct dcgym_lb_pool *in_force) {
    return decide(arrival->vip, hashed_server(in_force, arrival->digest), 0);
}

/* The device that the rule of the second level finds, or the processors if it has gone. */
static __always_inline struct decision decide_device(__u32 vip, __u32 server, __u64 now_ns) {
    struct decision decision;

    if (!constants.devices || server >= DCGYM_LB_SERVERS)
        return decide(vip, server, 0);
    decision = decide(vip, server, choose_device(vip, server, now_ns));
    if (decision.target)
        return decision;
    count(DCGYM_LB_DEVICE_FALLBACKS);
    return decide(vip, server, 0);
}

/* Remembers where a flow is sent; tells whether it was last sent to somebody else. */
static __always_inline bool moves(__u64 digest, const struct decision *decision) {
    __u32 index = (digest >> 16) & constants.witness_mask;
    struct witness *record = bpf_map_lookup_elem(&witnesses, &index);
    __u16 generation = generation_of(decision->target);
    bool moved;

    if (!record)
        return false;
    moved = record->generation && record->flow == (__u32)(digest >> 32) &&
            (record->server != decision->server || record->device != decision->device ||
             record->generation != generation);
    if (moved || record->flow != (__u32)(digest >> 32) || !record->generation)
        *record = (struct witness){digest >> 32, decision->server, decision->device, generation};
    return moved;
}

static __always_inline void count_opening(struct dcgym_lb_state *state,
                                          struct dcgym_lb_region *region, __u64 now_ns) {
    __u64 last_ns = state->last_open_ns;

    __sync_fetch_and_add(&state->syns, 1);
    state->last_open_ns = now_ns;
    if (constants.collects && last_ns && now_ns > last_ns)
        dcgym_reservoir_add(&region->interarrival, bpf_get_prandom_u32(), now_ns, now_ns - last_ns);
}

static __always_inline void count_syn(const struct arrival *arrival) {
    struct dcgym_lb_region *region = region_of(arrival->vip);
    struct dcgym_lb_state *state = state_of(arrival->vip);

    if (arrival->syn && region && state)
        count_opening(state, region, arrival->now_ns);
}

/*
 * A flow that finds no entry follows the hash, as its later packets will; unless they bear the
 * server's number.
 */
static __always_inline struct decision enter(struct bucket *bucket, const struct arrival *arrival,
                                             const struct dcgym_lb_pool *in_force,
                                             struct dcgym_lb_state *state, struct decision chosen) {
    struct flow flow = {
        .digest = arrival->digest,
        .start_ns = arrival->now_ns,
        .seen_ns = arrival->now_ns,
        .home = home_of(chosen.server, chosen.device),
        .generation = generation_of(chosen.target),
        .vip = arrival->vip,
        .phase = DCGYM_LB_SYN,
        .protocol = arrival->to.protocol,
        .counted = count_half_open(state, chosen.server),
    };
    const bool counted = flow.counted;
    struct flow evicted = {};
    enum inserted found = insert(bucket, &flow, &evicted);

    if (found != INSERTED && counted)
        uncount_half_open(state, chosen.server);
    if (found == NO_ROOM) {
        __sync_fetch_and_add(&state->untracked, 1);
        return arrival->stamped ? chosen : decide_by_hash(arrival, in_force);
    }
    if (evicted.phase != DCGYM_LB_NULL) {
        count(DCGYM_LB_EVICTED);
        count_departure(&evicted, arrival->now_ns);
    }
    if (constants.devices && found == INSERTED)
        count_connection(arrival->vip, chosen.server, chosen.device);
    return found == INSERTED ? chosen : decide_home(arrival->vip, flow.home);
}

/* The rule's choice for a new flow. */
static __always_inline __u32 choose(struct dcgym_lb_pool *in_force, struct dcgym_lb_state *state,
                                    const struct arrival *arrival) {
    __u32 server;

    if (!dcgym_is_told(in_force->rule))
        return choose_server(in_force, state, arrival->digest, arrival->now_ns);
    server = choose_as_told(arrival->vip, in_force, arrival->now_ns);
    if (in_force->rule == DCGYM_RULE_PREQUAL)
        ask_servers(arrival->vip, in_force, arrival->now_ns);
    return server;
}

static __always_inline struct decision place(struct bucket *bucket, const struct arrival *arrival) {
    struct dcgym_lb_region *region = region_of(arrival->vip);
    struct dcgym_lb_state *state = state_of(arrival->vip);
    struct dcgym_lb_pool *in_force = adopt_pool(arrival->vip);
    struct decision decision;
    __u32 server;

    if (!region || !state || !in_force)
        return nowhere(DCGYM_LB_DROP_BUSY);
    count_opening(state, region, arrival->now_ns);
    /* A rule chooses only where later packets will find their way by its choice. */
    if (bucket || arrival->stamped)
        server = choose(in_force, state, arrival);
    else
        server = hashed_server(in_force, arrival->digest);
    decision = bucket ? decide_device(arrival->vip, server, arrival->now_ns)
                      : decide(arrival->vip, server, 0);
    if (decision.target && bucket)
        decision = enter(bucket, arrival, in_force, state, decision);
    if (decision.target)
        moves(arrival->digest, &decision);
    return decision;
}

/* A packet whose server is found anew for each packet. */
static __always_inline struct decision follow_hash(const struct arrival *arrival) {
    struct dcgym_lb_pool *in_force = adopt_pool(arrival->vip);
    struct decision decision;

    if (!in_force)
        return nowhere(DCGYM_LB_DROP_BUSY);
    decision = decide_by_hash(arrival, in_force);
    if (decision.target && moves(arrival->digest, &decision))
        count(DCGYM_LB_PCC_VIOLATIONS);
    return decision;
}

/*
 * Where the flow's last packet went, if that is still known. A kernel resets a connection that it
 * does not know without timestamps, and the server had better hear of it.
 */
static __always_inline struct decision follow_record(const struct arrival *arrival) {
    __u32 index = (arrival->digest >> 16) & constants.witness_mask;
    const struct witness *record = bpf_map_lookup_elem(&witnesses, &index);
    struct decision last;

    if (!record || record->flow != (__u32)(arrival->digest >> 32))
        return nowhere(DCGYM_LB_DROP_NO_SERVER);
    last = decide(arrival->vip, record->server, record->device);
    return generation_of(last.target) == record->generation ? last
                                                            : nowhere(DCGYM_LB_DROP_NO_SERVER);
}

/*
 * The server that the packet names, `known` if it names none or that is gone. What the table says
 * is as a rule the same; a server's own word counts for more.
 */
static __always_inline struct decision follow_cookie(const struct arrival *arrival,
                                                     struct decision known) {
    struct decision named;

    if (arrival->cookie == DCGYM_LB_NO_COOKIE)
        return known.target || !arrival->ends ? known : follow_record(arrival);
    named = decide(arrival->vip, arrival->cookie, 0);
    if (!named.target || (known.target && known.server == named.server))
        return known;
    if (moves(arrival->digest, &named))
        count(DCGYM_LB_PCC_VIOLATIONS);
    return named;
}

/* The server of a flow in the table, none if there is no such flow or another took its number. */
static __always_inline struct decision follow_table(struct bucket *bucket,
                                                    const struct arrival *arrival) {
    struct decision none = {};
    struct flow flow = {};
    __u64 target;

    if (!move_on(bucket, arrival, &flow)) {
        count_departure(&flow, arrival->now_ns);
        return none;
    }
    count_packet(&flow, arrival);
    target = target_of(flow.vip, server_at(flow.home), device_at(flow.home));
    if (generation_of(target) == flow.generation)
        return (struct decision){
            .target = target, .server = server_at(flow.home), .device = device_at(flow.home)};
    forget(bucket, arrival->digest, &flow);
    count_departure(&flow, arrival->now_ns);
    /* A flow of TCP is noticed where its next packet goes; one of UDP is placed anew. */
    if (arrival->opens && !arrival->syn)
        count(DCGYM_LB_PCC_VIOLATIONS);
    return none;
}

/* Where the server's packet came from that an ICMP error quotes. Nothing is remembered of it. */
static __always_inline struct decision follow_quoted(const struct arrival *arrival) {
    struct bucket *bucket = bucket_of(arrival);
    struct dcgym_lb_pool *in_force;
    struct decision decision = {};
    struct flow flow = {};

    if (bucket)
        look_up(bucket, arrival->digest, &flow);
    if (flow.phase != DCGYM_LB_NULL && !is_expired(&flow, arrival->now_ns)) {
        decision = decide_home(arrival->vip, flow.home);
        if (generation_of(decision.target) == flow.generation)
            return decision;
    }
    decision = follow_record(arrival);
    if (decision.target)
        return decision;
    in_force = adopt_pool(arrival->vip);
    return in_force ? decide_by_hash(arrival, in_force) : nowhere(DCGYM_LB_DROP_BUSY);
}

static __always_inline struct decision route(struct arrival *arrival) {
    struct bucket *bucket = bucket_of(arrival);
    struct decision decision = {};

    if (constants.consistency == DCGYM_LB_BY_HASH) {
        count_syn(arrival);
        return follow_hash(arrival);
    }
    if (bucket)
        decision = follow_table(bucket, arrival);
    if (constants.consistency != DCGYM_LB_BY_TABLE)
        decision = follow_cookie(arrival, decision);
    if (decision.target)
        return decision;
    if (arrival->opens)
        return place(bucket, arrival);
    count(DCGYM_LB_MISSED);
    return follow_hash(arrival);
}

#endif
