/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a balancer is told: answers to its probes and messages of idle servers, in UDP datagrams to
 * an address of its own, and the response times that it sees. Probes are asked for here; a thread
 * of the loader's (probe_sender.hpp) sends them.
 */
#ifndef DCGYM_BPF_L4LB_TOLD_H
#define DCGYM_BPF_L4LB_TOLD_H

#define ASKED 1024 /* probes that may be under way: a power of two */
#define PROBE_QUEUE_BYTES 65536

/* A probe under way. */
struct asked {
    __u64 serial; /* 0: answered */
    __u64 sent_ns;
    __u64 server;
};

/* Of a VIP. The lock is for answers, probes and idle servers; each of `heard` may be written by two
 * CPUs at once, as the next sample mends that. A flood of messages finds the lock held for a few
 * hundred ns at a time. */
struct told {
    struct bpf_spin_lock lock;
    __u32 reserved;
    __u64 last_serial;
    struct dcgym_idle_queue idle;
    struct dcgym_met met;
    struct dcgym_prequal prequal;
    struct dcgym_heard heard[DCGYM_LB_SERVERS];
    struct asked asked[ASKED];
};

/* The loader sets max_entries before it loads the object. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct told);
} tolds SEC(".maps");

/* Probes that are to be sent (struct dcgym_lb_probe). */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, PROBE_QUEUE_BYTES);
} probes SEC(".maps");

static __always_inline struct told *told_of(__u32 vip) {
    return bpf_map_lookup_elem(&tolds, &vip);
}

/*
 * A flow's end, as its client's last packet shows it. Not inlined, as is what follows: the verifier
 * then walks it once.
 */
__noinline int note_response(__u32 vip, __u32 server, __u64 response_ns, __u64 now_ns) {
    struct told *told = told_of(vip);
    struct dcgym_heard *heard;

    if (!told)
        return 0;
    heard = &told->heard[server & (DCGYM_LB_SERVERS - 1)];
    dcgym_peak_sample(heard, response_ns, now_ns);
    dcgym_c3_respond(heard, response_ns);
    return 0;
}

__noinline int note_reported_load(__u32 vip, __u32 server, __u32 flows, __u64 service_ns) {
    struct told *told = told_of(vip);

    if (told)
        dcgym_c3_report(&told->heard[server & (DCGYM_LB_SERVERS - 1)], flows, service_ns);
    return 0;
}

/* The choice of a rule of messages. What changes more than one word is done under the lock. */
__noinline __u32 choose_as_told(__u32 vip, const struct dcgym_lb_pool *in_force, __u64 now_ns) {
    const struct dcgym_prequal_places *places = (const void *)&control.messages.places;
    struct dcgym_lb_state *state = state_of(vip);
    struct told *told = told_of(vip);
    struct dcgym_pool_view pool;
    __u64 reset_ns;
    __u32 found;

    if (!in_force || !state || !told)
        return DCGYM_NO_SERVER;
    pool = view(in_force);
    if (!pool.n)
        return DCGYM_NO_SERVER;
    if (in_force->rule == DCGYM_RULE_PREQUAL) {
        bpf_spin_lock(&told->lock);
        found = dcgym_prequal_choose(&told->prequal, places, in_force->members, now_ns);
        bpf_spin_unlock(&told->lock);
        return found != DCGYM_NO_SERVER
                   ? found
                   : pool.server[dcgym_below(&state->random, pool.n) & (DCGYM_LB_SERVERS - 1)];
    }
    reset_ns = dcgym_reset_ns(in_force->rule, control.messages.c3_reset_ns);
    if (!dcgym_has_met(&told->met, in_force->members, reset_ns, now_ns)) {
        bpf_spin_lock(&told->lock);
        dcgym_meet(&told->met, told->heard, &told->idle, in_force->members, reset_ns, now_ns);
        bpf_spin_unlock(&told->lock);
    }
    if (in_force->rule == DCGYM_RULE_JIQ) {
        bpf_spin_lock(&told->lock);
        found = dcgym_rule_idle_queue(&pool, &told->idle, told->heard, &state->random);
        bpf_spin_unlock(&told->lock);
        return pool.server[found & (DCGYM_LB_SERVERS - 1)];
    }
    found = in_force->rule == DCGYM_RULE_PEAK_EWMA
                ? dcgym_rule_peak_ewma(&pool, told->heard, state->ongoing, &state->random, now_ns)
                : dcgym_rule_c3(&pool, told->heard, state->ongoing, control.messages.balancers,
                                &state->random);
    return pool.server[found & (DCGYM_LB_SERVERS - 1)];
}

/* Probes of one request, to different servers of the pool. */
struct round_of_probes {
    const struct dcgym_lb_pool *pool;
    __u64 now_ns;
    __u64 asked[DCGYM_SET_WORDS(DCGYM_LB_SERVERS)]; /* positions of the pool that were drawn */
    __u32 vip;
    __u32 n;
    __u32 count;
};

/* Registers a probe and returns its serial number, from 1. */
static __always_inline __u64 register_probe(struct told *told, __u32 server, __u64 now_ns) {
    struct asked *asked;
    __u64 serial;

    bpf_spin_lock(&told->lock);
    serial = ++told->last_serial;
    asked = &told->asked[serial & (ASKED - 1)];
    asked->serial = serial;
    asked->sent_ns = now_ns;
    asked->server = server;
    bpf_spin_unlock(&told->lock);
    return serial;
}

/* Floyd's sampling without replacement (Bentley, Floyd 1987): every subset alike. */
static long ask_one(__u32 number, void *context) {
    struct round_of_probes *round = context;
    struct dcgym_lb_state *state = state_of(round->vip);
    struct told *told = told_of(round->vip);
    struct dcgym_lb_probe probe = {.vip = round->vip};
    const __u32 last = round->n - round->count + number;
    __u32 place;

    if (!state || !told || !round->pool)
        return 1;
    place = dcgym_below(&state->random, last + 1) & (DCGYM_LB_SERVERS - 1);
    if (dcgym_set_has(round->asked, place))
        place = last & (DCGYM_LB_SERVERS - 1);
    dcgym_set_add(round->asked, place);
    probe.server = round->pool->server[place];
    probe.serial = register_probe(told, probe.server, round->now_ns);
    count(DCGYM_LB_PROBES);
    if (bpf_ringbuf_output(&probes, &probe, sizeof(probe), 0))
        count(DCGYM_LB_PROBES_UNSENT);
    return 0;
}

/* After a request, as many probes as the published rate asks for; a fraction is drawn. */
__noinline int ask_servers(__u32 vip, const struct dcgym_lb_pool *in_force, __u64 now_ns) {
    struct round_of_probes round = {.now_ns = now_ns, .vip = vip};

    if (!in_force || in_force->n > DCGYM_LB_SERVERS)
        return 0;
    round.pool = in_force;
    round.n = in_force->n;
    round.count = control.messages.probes;
    if (bpf_get_prandom_u32() < control.messages.one_more)
        round.count++;
    if (round.count > round.n)
        round.count = round.n;
    bpf_loop(round.count, ask_one, &round, 0);
    return 0;
}

/* What becomes of an answer: a counter. */
__noinline __u32 take_answer(__u32 vip, const struct dcgym_message *message,
                             const struct dcgym_lb_pool *in_force) {
    struct told *told = told_of(vip);
    struct dcgym_prequal_budget budget;
    struct dcgym_answer answer = {};
    const __u64 now_ns = bpf_ktime_get_ns();
    __u32 verdict = DCGYM_LB_ANSWERS, peer = bpf_get_prandom_u32(), server;
    struct asked *asked;
    __u64 serial, draw;

    if (!told || !message || !in_force)
        return DCGYM_LB_DROP_MALFORMED;
    server = bpf_ntohs(message->server);
    serial = bpf_be64_to_cpu(message->serial);
    answer.received_ns = now_ns;
    answer.latency_ns = bpf_be64_to_cpu(message->latency_ns);
    answer.in_flight = bpf_ntohl(message->in_flight);
    answer.server = server;
    if (answer.latency_ns >= DCGYM_PREQUAL_HOT || answer.in_flight > DCGYM_PREQUAL_MOST_IN_FLIGHT)
        return DCGYM_LB_DROP_MALFORMED;
    if (!dcgym_set_has(in_force->members, server))
        return DCGYM_LB_MESSAGES_LEFT;
    draw = (__u64)bpf_get_prandom_u32() << 21 | bpf_get_prandom_u32() >> 11;
    budget = *(const struct dcgym_prequal_budget *)&control.messages
                  .budgets[in_force->n < DCGYM_LB_SERVERS ? in_force->n : DCGYM_LB_SERVERS];
    answer.uses = budget.uses + (draw < budget.more);
    bpf_spin_lock(&told->lock);
    asked = &told->asked[serial & (ASKED - 1)];
    if (serial == 0 || serial > told->last_serial)
        verdict = DCGYM_LB_MESSAGES_STRANGE;
    else if (serial + ASKED <= told->last_serial)
        verdict = DCGYM_LB_ANSWERS_LATE;
    else if (asked->serial != serial)
        verdict = DCGYM_LB_ANSWERS_REPEATED;
    else if (asked->server != server)
        verdict = DCGYM_LB_MESSAGES_STRANGE;
    else {
        asked->serial = 0;
        if (dcgym_elapsed_ns(now_ns, asked->sent_ns) > control.messages.timeout_ns)
            verdict = DCGYM_LB_ANSWERS_LATE;
        else
            dcgym_prequal_insert(&told->prequal, budget.capacity, &answer, peer);
    }
    bpf_spin_unlock(&told->lock);
    return verdict;
}

__noinline __u32 take_idle(__u32 vip, __u32 server, const struct dcgym_lb_pool *in_force) {
    struct told *told = told_of(vip);

    if (!told || !in_force)
        return DCGYM_LB_DROP_MALFORMED;
    server &= DCGYM_LB_SERVERS - 1;
    if (!dcgym_set_has(in_force->members, server))
        return DCGYM_LB_MESSAGES_LEFT;
    bpf_spin_lock(&told->lock);
    dcgym_note_idle(&told->idle, &told->heard[server]);
    bpf_spin_unlock(&told->lock);
    return DCGYM_LB_IDLE;
}

/* Whether a server has this number and MAC. */
static __always_inline bool is_server(__u32 vip, __u32 server, __u64 mac) {
    __u32 index = target_index(vip, server, 0);
    const struct dcgym_lb_target *target = bpf_map_lookup_elem(&targets, &index);
    __u64 known = 0;

    if (!target || !target->generation)
        return false;
    __builtin_memcpy(&known, target->mac, sizeof(target->mac));
    return known == mac;
}

/* One branch for all conditions: the verifier walks what follows once for each of them. */
static __always_inline bool is_message(const struct arrival *arrival) {
    const __u32 address = control.messages.address;
    __u32 differs = (arrival->to.version ^ 4) | (arrival->to.protocol ^ IPPROTO_UDP) |
                    arrival->quoted | (arrival->to.address[0] ^ address) |
                    (arrival->to.port ^ bpf_htons(DCGYM_MESSAGE_PORT));

    barrier_var(differs);
    return !differs && address;
}

/* The counter of a message from the MAC in the low bytes of `from`. */
__noinline __u32 take_whole_message(const struct dcgym_message *message, __u64 from) {
    struct dcgym_lb_pool *pool;
    __u32 server, vip;

    if (!message)
        return DCGYM_LB_DROP_MALFORMED;
    server = bpf_ntohs(message->server);
    vip = bpf_ntohs(message->vip);
    if (message->magic != bpf_htons(DCGYM_MESSAGE_MAGIC) ||
        message->version != DCGYM_MESSAGE_VERSION)
        return DCGYM_LB_DROP_MALFORMED;
    if (constants.devices && message->kind == DCGYM_MESSAGE_STATUS)
        return take_status(message, from);
    if (vip >= constants.n_vips || server >= DCGYM_LB_SERVERS)
        return DCGYM_LB_DROP_MALFORMED;
    if (!is_server(vip, server, from))
        return DCGYM_LB_MESSAGES_STRANGE;
    pool = adopt_pool(vip);
    if (!pool)
        return DCGYM_LB_DROP_BUSY;
    if (message->kind == DCGYM_MESSAGE_ANSWER)
        return take_answer(vip, message, pool);
    if (message->kind == DCGYM_MESSAGE_IDLE)
        return take_idle(vip, server, pool);
    return DCGYM_LB_DROP_MALFORMED;
}

/* Counts a message: it goes no further, whatever it is. */
static __always_inline int take_message(const struct frame *frame, const struct arrival *arrival) {
    const struct dcgym_message *found = arrival->l4 + sizeof(struct udphdr);
    const struct ethhdr *eth = frame->data;
    struct dcgym_message message;
    __u64 from = 0;

    if ((const void *)(found + 1) > frame->end || (const void *)(eth + 1) > frame->end) {
        count(DCGYM_LB_DROP_TRUNCATED);
        return FOR_NOBODY;
    }
    __builtin_memcpy(&message, found, sizeof(message));
    __builtin_memcpy(&from, eth->h_source, sizeof(eth->h_source));
    count(take_whole_message(&message, from));
    return FOR_NOBODY;
}

#endif
