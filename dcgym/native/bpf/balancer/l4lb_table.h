/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flow table: buckets of a few entries under one lock each. Not the kernel's LRU hash, which
 * evicts without a word: whoever leaves must be taken off the flows that the rules count.
 */
#ifndef DCGYM_BPF_L4LB_TABLE_H
#define DCGYM_BPF_L4LB_TABLE_H

struct flow {
    __u64 digest;
    __u64 start_ns;
    __u64 seen_ns;
    __u16 home;       /* home_of(server, device): in bytes of their own they cost 10 ns a packet */
    __u16 generation; /* of both */
    __u8 vip;
    __u8 phase; /* enum dcgym_lb_phase */
    __u8 protocol;
    __u8 counted; /* in the phase SYN: it is among the flows that the rules count */
};

struct bucket {
    struct bpf_spin_lock lock;
    __u32 reserved;
    struct flow flows[DCGYM_LB_WAYS];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bucket);
} buckets SEC(".maps");

static __always_inline __u64 timeout_ns(const struct flow *flow) {
    if (flow->phase == DCGYM_LB_SYN)
        return control.syn_timeout_ns;
    if (flow->phase == DCGYM_LB_CLOSED)
        return control.closed_timeout_ns;
    if (flow->phase == DCGYM_LB_HALF_CLOSED)
        return control.half_closed_timeout_ns;
    return flow->protocol == IPPROTO_UDP ? control.udp_timeout_ns : control.tcp_timeout_ns;
}

static __always_inline bool is_expired(const struct flow *flow, __u64 now_ns) {
    return dcgym_elapsed_ns(now_ns, flow->seen_ns) > timeout_ns(flow);
}

/* Samples go into the reservoir of the flow's server. */
#define SAMPLE(region, flow, what, now, value)                                                     \
    dcgym_reservoir_add(&(region)->samples[(flow)->home & (DCGYM_LB_SERVERS - 1)].what,            \
                        bpf_get_prandom_u32(), now, value)

static __always_inline void add_ongoing(struct dcgym_lb_state *state, __u32 server, int more) {
    barrier_var(server); /* else the compiler knows its bounds, and the verifier does not */
    __sync_fetch_and_add(&state->ongoing[server & (DCGYM_LB_SERVERS - 1)], more);
}

/* A flow that its client has only opened. A flood of them must not blind the rules. */
static __always_inline bool count_half_open(struct dcgym_lb_state *state, __u32 server) {
    if (state->half_open >= control.half_open_limit)
        return false;
    __sync_fetch_and_add(&state->half_open, 1);
    add_ongoing(state, server, 1);
    return true;
}

static __always_inline void uncount_half_open(struct dcgym_lb_state *state, __u32 server) {
    __sync_fetch_and_add(&state->half_open, -1);
    add_ongoing(state, server, -1);
}

static __always_inline void count_end(const struct flow *flow, __u64 now_ns, __u64 end_ns) {
    struct dcgym_lb_state *state = state_of(flow->vip);
    struct dcgym_lb_region *region = region_of(flow->vip);
    const __u32 server = flow->home & (DCGYM_LB_SERVERS - 1);

    if (!state || !region)
        return;
    __sync_fetch_and_add(&state->completed[server], 1);
    add_ongoing(state, server, -1);
    if (constants.collects)
        SAMPLE(region, flow, completion, now_ns, dcgym_elapsed_ns(end_ns, flow->start_ns));
}

/* An entry went without the flow's end having been seen: its last packet was the end. */
static __always_inline void count_departure(const struct flow *flow, __u64 now_ns) {
    struct dcgym_lb_state *state = state_of(flow->vip);

    if (flow->phase == DCGYM_LB_CONN)
        count_end(flow, now_ns, flow->seen_ns);
    if (flow->phase != DCGYM_LB_SYN || !state)
        return;
    __sync_fetch_and_add(&state->timeouts, 1);
    if (flow->counted)
        uncount_half_open(state, flow->home);
}

/* A packet of a flow in the table; `flow` is the entry as it was before. */
static __always_inline void count_packet(const struct flow *flow, const struct arrival *arrival) {
    struct dcgym_lb_state *state = state_of(flow->vip);
    struct dcgym_lb_region *region = region_of(flow->vip);
    const __u32 server = flow->home & (DCGYM_LB_SERVERS - 1);
    const __u64 age_ns = dcgym_elapsed_ns(arrival->now_ns, flow->start_ns);

    if (!state || !region || arrival->syn)
        return;
    if (flow->phase == DCGYM_LB_SYN && flow->counted)
        uncount_half_open(state, server);
    if (flow->phase == DCGYM_LB_SYN && !arrival->ends) {
        __sync_fetch_and_add(&state->flows[server], 1);
        add_ongoing(state, server, 1);
        if (constants.collects)
            SAMPLE(region, flow, handshake, arrival->now_ns, age_ns);
    }
    if (flow->phase != DCGYM_LB_CONN)
        return;
    if (constants.collects)
        SAMPLE(region, flow, duration, arrival->now_ns, age_ns);
    if (arrival->ends) {
        count_end(flow, arrival->now_ns, arrival->now_ns);
        note_response(flow->vip, server, age_ns, arrival->now_ns);
    }
}

static __always_inline struct flow *find(struct bucket *bucket, __u64 digest) {
    for (int i = 0; i < DCGYM_LB_WAYS; i++) {
        struct flow *flow = &bucket->flows[i];

        if (flow->phase != DCGYM_LB_NULL && flow->digest == digest)
            return flow;
    }
    return NULL;
}

static __always_inline __u8 next_phase(__u8 phase, const struct arrival *arrival) {
    if (arrival->ends)
        return arrival->resets ? DCGYM_LB_CLOSED : DCGYM_LB_HALF_CLOSED;
    if (arrival->syn)
        return phase;
    if (phase == DCGYM_LB_SYN)
        return DCGYM_LB_CONN;
    if (phase == DCGYM_LB_HALF_CLOSED || phase == DCGYM_LB_CLOSED)
        return arrival->has_data ? DCGYM_LB_GOES_ON : DCGYM_LB_HALF_CLOSED;
    return phase;
}

/* A closed flow's five-tuple that is opened again is another flow's. */
static __always_inline bool is_over(const struct flow *flow, const struct arrival *arrival) {
    const bool closed = flow->phase == DCGYM_LB_CLOSED || flow->phase == DCGYM_LB_HALF_CLOSED;

    return is_expired(flow, arrival->now_ns) || (closed && arrival->syn);
}

/*
 * Finds the packet's flow and moves it on. True if there is one; `flow` is left as the entry was
 * before, of phase NULL if there was none.
 */
static __always_inline bool move_on(struct bucket *bucket, const struct arrival *arrival,
                                    struct flow *flow) {
    bool known = false;
    struct flow *entry;

    bpf_spin_lock(&bucket->lock);
    entry = find(bucket, arrival->digest);
    if (entry) {
        *flow = *entry;
        known = !is_over(entry, arrival);
        entry->phase = known ? next_phase(entry->phase, arrival) : DCGYM_LB_NULL;
        entry->seen_ns = arrival->now_ns;
    }
    bpf_spin_unlock(&bucket->lock);
    return known;
}

/* A flow as the table has it; `flow` keeps its phase NULL if there is none. */
static __always_inline void look_up(struct bucket *bucket, __u64 digest, struct flow *flow) {
    const struct flow *entry;

    bpf_spin_lock(&bucket->lock);
    entry = find(bucket, digest);
    if (entry)
        *flow = *entry;
    bpf_spin_unlock(&bucket->lock);
}

/* Takes a flow off the table; `flow` is left as the entry was. */
static __always_inline void forget(struct bucket *bucket, __u64 digest, struct flow *flow) {
    struct flow *entry;

    flow->phase = DCGYM_LB_NULL;
    bpf_spin_lock(&bucket->lock);
    entry = find(bucket, digest);
    if (entry) {
        *flow = *entry;
        entry->phase = DCGYM_LB_NULL;
    }
    bpf_spin_unlock(&bucket->lock);
}

/*
 * How readily an entry gives way; 0: not at all. A live flow never does: it would break. One that
 * is half closed mostly is over; if not, its ACKs make it the most recently used.
 */
static __always_inline __u32 readiness(const struct flow *flow, __u64 now_ns) {
    if (flow->phase == DCGYM_LB_NULL)
        return 4;
    if (is_expired(flow, now_ns))
        return 3;
    if (flow->phase == DCGYM_LB_CLOSED)
        return 2;
    return flow->phase == DCGYM_LB_HALF_CLOSED;
}

/* Of the readiest the least recently used. */
static __always_inline struct flow *victim(struct bucket *bucket, __u64 now_ns) {
    struct flow *found = NULL;
    __u32 most = 0;

    for (int i = 0; i < DCGYM_LB_WAYS; i++) {
        struct flow *flow = &bucket->flows[i];
        __u32 ready = readiness(flow, now_ns);

        if (ready && (ready > most || (found && ready == most && flow->seen_ns < found->seen_ns))) {
            found = flow;
            most = ready;
        }
    }
    return found;
}

enum inserted { NO_ROOM, INSERTED, KNOWN };

/*
 * Puts a flow into the table. If another CPU was first with it, `flow` becomes what that one wrote.
 * `evicted` is left as the entry that gave way.
 */
static __always_inline enum inserted insert(struct bucket *bucket, struct flow *flow,
                                            struct flow *evicted) {
    enum inserted found = NO_ROOM;
    struct flow *entry;

    evicted->phase = DCGYM_LB_NULL;
    bpf_spin_lock(&bucket->lock);
    entry = find(bucket, flow->digest);
    if (entry) {
        *flow = *entry;
        found = KNOWN;
    } else {
        entry = victim(bucket, flow->start_ns);
        if (entry) {
            *evicted = *entry;
            *entry = *flow;
            found = INSERTED;
        }
    }
    bpf_spin_unlock(&bucket->lock);
    return found;
}

/* Clears entries that timed out; called for every bucket in turn. */
static __always_inline void sweep_bucket(struct bucket *bucket, __u64 now_ns) {
    struct flow gone[DCGYM_LB_WAYS] = {};

    bpf_spin_lock(&bucket->lock);
    for (int i = 0; i < DCGYM_LB_WAYS; i++) {
        struct flow *flow = &bucket->flows[i];

        if (flow->phase == DCGYM_LB_NULL || !is_expired(flow, now_ns))
            continue;
        gone[i] = *flow;
        flow->phase = DCGYM_LB_NULL;
    }
    bpf_spin_unlock(&bucket->lock);
    for (int i = 0; i < DCGYM_LB_WAYS; i++)
        count_departure(&gone[i], now_ns);
}

#endif
