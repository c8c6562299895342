/* SPDX-License-Identifier: GPL-2.0 */
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

/* The pool in force. A change is copied first and looked at again; NULL if none stood still. */
static __always_inline struct dcgym_lb_pool *adopt_pool(__u32 vip) {
    struct dcgym_lb_region *region = region_of(vip);
    struct dcgym_lb_pool *pool = bpf_map_lookup_elem(&pools, &vip);

    if (!region || !pool)
        return NULL;
    for (int i = 0; i < POOL_READ_RETRIES; i++) {
        __u64 sequence = newest_pool(region);
        struct dcgym_lb_pool *newest = &region->pools[sequence % DCGYM_LB_BUFFERS];

        if (sequence == pool->sequence)
            return pool;
        read_barrier();
        bpf_probe_read_kernel(pool, sizeof(*pool), newest);
        read_barrier();
        if (*(volatile __u64 *)&newest->sequence == sequence && pool->sequence == sequence)
            return pool;
        pool->sequence = ~0ull; /* may hold parts of two, and is no pool until replaced */
    }
    return NULL;
}

static __always_inline struct dcgym_pool_view view(const struct dcgym_lb_pool *pool) {
    __u32 n = pool->n <= DCGYM_LB_SERVERS ? pool->n : 0;

    return (struct dcgym_pool_view){n, pool->server, pool->weight, pool->alias};
}

#endif
