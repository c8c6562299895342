// SPDX-License-Identifier: GPL-2.0
/* Layer-4 balancer: a VIP's packets go to a server's MAC, and the server answers the client. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "barrier.h"
#include "l4lb.h"
#include "l4lb_maps.h"
#include "l4lb_packet.h"
#include "l4lb_table.h"
#include "l4lb_pool.h"
#include "l4lb_snapshot.h"

/* Where a packet goes: a target's word, 0 if nowhere, and then the reason. */
struct decision {
    __u64 target;
    __u32 server;
    __u32 reason;
};

static __always_inline __u64 target_of(__u32 vip, __u32 server) {
    __u32 index = vip * DCGYM_LB_SERVERS + (server & (DCGYM_LB_SERVERS - 1));
    volatile __u64 *target = bpf_map_lookup_elem(&targets, &index);

    return target && server < DCGYM_LB_SERVERS ? *target : 0; /* in one load: it may change */
}

static __always_inline __u16 generation_of(__u64 target) {
    struct dcgym_lb_target parts;

    __builtin_memcpy(&parts, &target, sizeof(parts));
    return parts.generation;
}

static __always_inline struct decision decide(__u32 vip, __u32 server) {
    __u64 target = target_of(vip, server);

    if (!generation_of(target))
        return (struct decision){.reason = DCGYM_LB_DROP_NO_SERVER};
    return (struct decision){.target = target, .server = server};
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
            (record->server != decision->server || record->generation != generation);
    *record = (struct witness){digest >> 32, decision->server, generation};
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

/* A flow that finds no entry follows the hash, as its later packets will. */
static __always_inline struct decision enter(struct bucket *bucket, const struct arrival *arrival,
                                             const struct dcgym_pool_view *pool,
                                             struct dcgym_lb_state *state, struct decision chosen) {
    struct flow flow = {
        .digest = arrival->digest,
        .start_ns = arrival->now_ns,
        .seen_ns = arrival->now_ns,
        .server = chosen.server,
        .generation = generation_of(chosen.target),
        .vip = arrival->vip,
        .phase = DCGYM_LB_SYN,
        .protocol = arrival->to.protocol,
    };
    struct flow evicted = {};

    if (!insert(bucket, &flow, &evicted)) {
        __sync_fetch_and_add(&state->untracked, 1);
        return decide(arrival->vip, dcgym_lb_rendezvous(pool, arrival->digest));
    }
    if (evicted.phase != DCGYM_LB_NULL) {
        count(DCGYM_LB_EVICTED);
        count_departure(&evicted, arrival->now_ns);
    }
    return flow.server == chosen.server ? chosen : decide(arrival->vip, flow.server);
}

/* A new flow: the rule in force chooses. */
static __always_inline struct decision place(struct bucket *bucket, const struct arrival *arrival) {
    struct dcgym_lb_region *region = region_of(arrival->vip);
    struct dcgym_lb_state *state = state_of(arrival->vip);
    struct dcgym_lb_pool *in_force = adopt_pool(arrival->vip);
    struct dcgym_state_view rule_state;
    struct dcgym_pool_view pool;
    struct decision decision;

    if (!region || !state || !in_force)
        return (struct decision){.reason = DCGYM_LB_DROP_BUSY};
    count_opening(state, region, arrival->now_ns);
    pool = view(in_force);
    rule_state =
        (struct dcgym_state_view){&state->random, &state->turn, state->ongoing, state->score};
    decision = decide(arrival->vip, dcgym_choose(in_force->rule, &pool, &rule_state,
                                                 arrival->digest, arrival->now_ns));
    if (decision.target)
        decision = enter(bucket, arrival, &pool, state, decision);
    if (decision.target)
        moves(arrival->digest, &decision);
    return decision;
}

/* A packet of a flow that is not in the table: never entered, evicted, or of another balancer's. */
static __always_inline struct decision follow_hash(const struct arrival *arrival) {
    struct dcgym_lb_pool *in_force = adopt_pool(arrival->vip);
    struct dcgym_pool_view pool;
    struct decision decision;

    if (!in_force)
        return (struct decision){.reason = DCGYM_LB_DROP_BUSY};
    pool = view(in_force);
    decision = decide(arrival->vip, dcgym_lb_rendezvous(&pool, arrival->digest));
    count(DCGYM_LB_MISSED);
    if (decision.target && moves(arrival->digest, &decision))
        count(DCGYM_LB_BROKEN);
    return decision;
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
    target = target_of(flow.vip, flow.server);
    if (generation_of(target) == flow.generation)
        return (struct decision){.target = target, .server = flow.server};
    forget(bucket, arrival->digest, &flow);
    count_departure(&flow, arrival->now_ns);
    /* A flow of TCP is noticed where its next packet goes; one of UDP is placed anew. */
    if (arrival->opens && !arrival->syn)
        count(DCGYM_LB_BROKEN);
    return none;
}

static __always_inline struct decision route(struct arrival *arrival) {
    __u32 index = arrival->digest & constants.bucket_mask;
    struct bucket *bucket = bpf_map_lookup_elem(&buckets, &index);
    struct decision decision;

    if (!bucket)
        return (struct decision){.reason = DCGYM_LB_DROP_BUSY};
    decision = follow_table(bucket, arrival);
    if (decision.target)
        return decision;
    return arrival->opens ? place(bucket, arrival) : follow_hash(arrival);
}

static __always_inline int send(struct __sk_buff *skb, __u64 target) {
    struct ethhdr *eth = (void *)(long)skb->data;
    __u64 mac = control.mac;

    if ((void *)(eth + 1) > (void *)(long)skb->data_end)
        return TC_ACT_SHOT;
    __builtin_memcpy(eth->h_dest, &target, sizeof(eth->h_dest));
    __builtin_memcpy(eth->h_source, &mac, sizeof(eth->h_source));
    return bpf_redirect(skb->ifindex, 0);
}

/* FOR_BALANCER with a decision, FOR_STACK, or minus the counter of a dropped packet. */
static __always_inline int balance(struct __sk_buff *skb, struct decision *decision) {
    struct arrival arrival = {};
    struct dcgym_lb_state *state;
    int found = parse(skb, &arrival);
    __u32 *vip;

    if (found != FOR_BALANCER)
        return found;
    vip = bpf_map_lookup_elem(&vips, &arrival.to);
    if (!vip)
        return refuse_ours(&arrival, DCGYM_LB_DROP_PORT);
    arrival.vip = *vip;
    arrival.digest = digest(&arrival);
    arrival.now_ns = bpf_ktime_get_ns();
    *decision = route(&arrival);
    if (!decision->target)
        return -(int)decision->reason;
    state = state_of(arrival.vip);
    if (state)
        __sync_fetch_and_add(&state->packets[decision->server & (DCGYM_LB_SERVERS - 1)], 1);
    return FOR_BALANCER;
}

SEC("tc")
int l4lb_balance(struct __sk_buff *skb) {
    struct decision decision = {};
    int found = balance(skb, &decision);

    if (found == FOR_BALANCER)
        return send(skb, decision.target);
    if (found == FOR_STACK)
        return TC_ACT_OK;
    count(-found);
    return TC_ACT_SHOT;
}

/*
 * The same for measurements: the packet is neither changed nor sent, but its flow is entered and
 * counted. Returns the server's number or DCGYM_NO_SERVER.
 */
SEC("tc")
int l4lb_select(struct __sk_buff *skb) {
    struct decision decision = {};

    return balance(skb, &decision) == FOR_BALANCER ? decision.server : DCGYM_NO_SERVER;
}

/* Run once by the loader. The timer ends when no process holds the maps any more. */
SEC("tc")
int l4lb_start(struct __sk_buff *skb) {
    __u32 zero = 0;
    struct ticker *ticker = bpf_map_lookup_elem(&tickers, &zero);

    if (!ticker || bpf_timer_init(&ticker->timer, &tickers, CLOCK_MONOTONIC))
        return -1;
    bpf_timer_set_callback(&ticker->timer, tick);
    return bpf_timer_start(&ticker->timer, 0, 0);
}

char _license[] SEC("license") = "GPL";
