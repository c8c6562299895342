/* SPDX-License-Identifier: GPL-2.0-only */
/* What a timer does: it publishes counters and clears entries that timed out. */
#ifndef DCGYM_BPF_L4LB_SNAPSHOT_H
#define DCGYM_BPF_L4LB_SNAPSHOT_H

#define CLOCK_MONOTONIC 1
#define SWEEP_TICKS 64 /* between two looks at the same bucket */

static __always_inline void fill(struct dcgym_lb_snapshot *snapshot, __u32 vip,
                                 struct dcgym_lb_state *state, __u64 now_ns) {
    const struct dcgym_lb_pool *pool = adopt_pool(vip);

    snapshot->time_ns = now_ns;
    for (int i = 0; i < DCGYM_SET_WORDS(DCGYM_LB_SERVERS); i++)
        snapshot->active[i] = pool ? pool->members[i] : 0;
    snapshot->syns = state->syns;
    snapshot->untracked = state->untracked;
    snapshot->timeouts = state->timeouts;
    for (int i = 0; i < DCGYM_LB_SERVERS; i++)
        snapshot->servers[i] = (struct dcgym_lb_server){state->packets[i], state->flows[i],
                                                        state->completed[i], state->ongoing[i]};
}

/* The writer's side of the protocol of balancing.h. */
static long publish(__u32 vip, void *now) {
    struct dcgym_lb_region *region = region_of(vip);
    struct dcgym_lb_state *state = state_of(vip);
    struct dcgym_lb_snapshot *snapshot;
    __u64 newest = 0;

    if (!region || !state)
        return 1;
    for (int i = 0; i < DCGYM_LB_BUFFERS; i++)
        if (region->snapshots[i].sequence > newest)
            newest = region->snapshots[i].sequence;
    snapshot = &region->snapshots[(newest + 1) % DCGYM_LB_BUFFERS];
    *(volatile __u64 *)&snapshot->sequence = 0;
    write_barrier();
    fill(snapshot, vip, state, *(__u64 *)now);
    write_barrier();
    *(volatile __u64 *)&snapshot->sequence = newest + 1;
    region->header.time_ns = region->header.heartbeat_ns = *(__u64 *)now;
    return 0;
}

struct round {
    __u64 now_ns;
    __u64 first; /* bucket */
};

static long sweep(__u32 offset, void *context) {
    const struct round *round = context;
    __u32 index = (round->first + offset) & constants.bucket_mask;
    struct bucket *bucket = bpf_map_lookup_elem(&buckets, &index);

    if (bucket)
        sweep_bucket(bucket, round->now_ns);
    return 0;
}

static int tick(void *map, __u32 *key, struct ticker *ticker) {
    __u32 buckets_a_tick = constants.bucket_mask / SWEEP_TICKS + 1;
    struct round round = {bpf_ktime_get_ns(), ticker->position};

    bpf_loop(buckets_a_tick, sweep, &round, 0);
    bpf_loop(constants.n_vips, publish, &round.now_ns, 0);
    ticker->position += buckets_a_tick;
    bpf_timer_start(&ticker->timer, control.snapshot_interval_ns, 0);
    return 0;
}

#endif
