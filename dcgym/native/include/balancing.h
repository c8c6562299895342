/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Shared memory of one balancer and one VIP: the single definition of the layout that the data
 * plane and the twin write and every reader maps (NumPy through dcgym.monitors.balancer, whose
 * sizes and offsets a test compares with these).
 *
 * Features: counters go out in snapshots, samples in place. Decisions: pools come back the same
 * way. Snapshots and pools use several buffers (Yao 2023, section 3.2.2): buffer number
 * sequence modulo DCGYM_LB_BUFFERS; the writer sets the buffer's sequence to 0, fills it, then
 * publishes the sequence. A reader takes the buffer of the highest sequence, copies it and looks
 * again: a change means that the writer came round meanwhile. Nobody waits for anybody.
 */
#ifndef DCGYM_BALANCING_H
#define DCGYM_BALANCING_H

#include "reservoir.h"
#include "rules.h"

#define DCGYM_LB_MAGIC 0x424c4d59474344ULL /* "DCGYMLB" read as a little-endian word */
#define DCGYM_LB_VERSION 2
#define DCGYM_LB_BUFFERS 4

struct dcgym_lb_header {
    __u64 magic;
    __u64 version;
    __u64 n_servers;    /* columns in use */
    __u64 time_ns;      /* clock of the samples: CLOCK_MONOTONIC, or simulated time */
    __u64 heartbeat_ns; /* last sign of life of the writer, on the same clock */
};

struct dcgym_lb_server {
    __u64 packets;   /* sent to the server */
    __u64 flows;     /* entered the state CONN */
    __u64 completed; /* left it by their end */
    __u64 ongoing;   /* in it now */
};

struct dcgym_lb_snapshot {
    __u64 sequence;
    __u64 time_ns;
    __u64 syns;      /* new flows seen */
    __u64 untracked; /* found no free entry of the flow table */
    __u64 timeouts;  /* entries whose handshake was never finished */
    __u64 active[DCGYM_SET_WORDS(DCGYM_LB_SERVERS)]; /* set of servers: they take new flows */
    struct dcgym_lb_server servers[DCGYM_LB_SERVERS];
};

/* The members of the pool and the rule; columns as in struct dcgym_pool_view. */
struct dcgym_lb_pool {
    __u64 sequence;
    __u64 time_ns;
    __u32 rule; /* enum dcgym_rule */
    __u32 n;
    __u64 members[DCGYM_SET_WORDS(DCGYM_LB_SERVERS)]; /* set of the servers */
    __u16 server[DCGYM_LB_SERVERS];
    __u32 weight[DCGYM_LB_SERVERS];
    struct dcgym_alias alias[DCGYM_LB_SERVERS];
};

struct dcgym_lb_samples {
    struct dcgym_reservoir duration;   /* packet in CONN - SYN */
    struct dcgym_reservoir completion; /* end of the flow - SYN */
    struct dcgym_reservoir handshake;  /* first packet in CONN - SYN */
};

struct dcgym_lb_region {
    struct dcgym_lb_header header;
    struct dcgym_lb_snapshot snapshots[DCGYM_LB_BUFFERS];
    struct dcgym_lb_pool pools[DCGYM_LB_BUFFERS];
    struct dcgym_reservoir interarrival; /* gaps between SYNs */
    struct dcgym_lb_samples samples[DCGYM_LB_SERVERS];
};

#ifndef __bpf__
/*
 * The writer's side of the protocol, for snapshots and pools alike: `buffers` points at the first,
 * `stride` is the size of one. There is one writer.
 */
static inline __u64 *dcgym_lb_sequence(void *buffers, __u64 stride, __u64 sequence) {
    return (__u64 *)((char *)buffers + (sequence % DCGYM_LB_BUFFERS) * stride);
}

/* Opens the oldest buffer and returns the sequence that it will have; it is not yet visible. */
static inline __u64 dcgym_lb_open(void *buffers, __u64 stride) {
    __u64 newest = 0;

    for (__u64 i = 0; i < DCGYM_LB_BUFFERS; i++) {
        const __u64 found = *dcgym_lb_sequence(buffers, stride, i);

        newest = found > newest ? found : newest;
    }
    __atomic_store_n(dcgym_lb_sequence(buffers, stride, newest + 1), 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return newest + 1;
}

static inline void dcgym_lb_publish(void *buffers, __u64 stride, __u64 sequence) {
    __atomic_store_n(dcgym_lb_sequence(buffers, stride, sequence), sequence, __ATOMIC_RELEASE);
}
#endif

#endif
