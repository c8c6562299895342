/* SPDX-License-Identifier: GPL-2.0-only */
/* The pool in force: taken over from the memory that its writer maps. */
#ifndef DCGYM_BPF_L4LB_POOL_H
#define DCGYM_BPF_L4LB_POOL_H

#define POOL_READ_RETRIES 8

static __always_inline __u64 newest_pool(const struct dcgym_lb_region *region) {
    __u64 newest = 0;

    for (int i = 0; i < DCGYM_LB_BUFFERS; i++) {
        __u64 found = *(const volatile __u64 *)&region->pools[i].sequence;

        newest = found > newest ? found : newest;
    }
    return newest;
}

/*
 * Brings the CPU's copy up to date: 1, or 0 if no pool stood still. A change is copied first and
 * looked at again. Not inlined, as what has loops is not: the verifier then walks it once.
 */
__noinline int refresh_pool(__u32 vip) {
    struct dcgym_lb_region *region = region_of(vip);
    struct dcgym_lb_pool *pool = bpf_map_lookup_elem(&pools, &vip);

    if (!region || !pool)
        return 0;
    for (int i = 0; i < POOL_READ_RETRIES; i++) {
        __u64 sequence = newest_pool(region);
        struct dcgym_lb_pool *newest = &region->pools[sequence % DCGYM_LB_BUFFERS];

        if (sequence == pool->sequence)
            return 1;
        read_barrier();
        bpf_probe_read_kernel(pool, sizeof(*pool), newest);
        read_barrier();
        if (*(volatile __u64 *)&newest->sequence == sequence && pool->sequence == sequence)
            return 1;
        pool->sequence = ~0ull; /* may hold parts of two, and is no pool until replaced */
    }
    return 0;
}

/* The pool in force, NULL if it is being replaced all the time. */
static __always_inline struct dcgym_lb_pool *adopt_pool(__u32 vip) {
    return refresh_pool(vip) ? bpf_map_lookup_elem(&pools, &vip) : NULL;
}

static __always_inline struct dcgym_pool_view view(const struct dcgym_lb_pool *pool) {
    __u32 n = pool->n <= DCGYM_LB_SERVERS ? pool->n : 0;

    return (struct dcgym_pool_view){n, pool->server, pool->weight, pool->alias};
}

/* The choice for a new flow of a rule that needs no messages. */
__noinline __u32 choose_server(const struct dcgym_lb_pool *in_force, struct dcgym_lb_state *state,
                               __u64 digest, __u64 now_ns) {
    struct dcgym_state_view rule_state;
    struct dcgym_pool_view pool;

    if (!in_force || !state)
        return DCGYM_NO_SERVER;
    pool = view(in_force);
    rule_state = (struct dcgym_state_view){
        &state->random, &state->turn, state->ongoing, state->score, state->turns,
        &state->clock,  NULL};
    return dcgym_choose(in_force->rule, &pool, &rule_state, digest, now_ns);
}

/* Where the hash leads, whatever the flow is. */
__noinline __u32 hashed_server(const struct dcgym_lb_pool *in_force, __u64 digest) {
    struct dcgym_pool_view pool;

    if (!in_force)
        return DCGYM_NO_SERVER;
    pool = view(in_force);
    return dcgym_fallback(in_force->rule, &pool, digest);
}

#endif
