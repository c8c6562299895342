/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The hash of a five-tuple, one for software muxes and switches: with equal seeds a flow keeps its
 * server while its VIP moves between them (Duet, section 4.2).
 */
#ifndef DCGYM_FLOW_DIGEST_H
#define DCGYM_FLOW_DIGEST_H

#include "splitmix.h"

/* What is hashed, as it lies in memory; IPv4 in the first word of each address. */
struct dcgym_five_tuple {
    const __u32 *from;
    const __u32 *to;
    __u32 from_port;
    __u32 to_port;
    __u32 protocol;
    __u32 is_ipv6;
};

/* 64 bits; the upper 32 choose a server by `dcgym_scale`. */
DCGYM_INLINE __u64 dcgym_flow_digest(__u64 seed, const struct dcgym_five_tuple *flow) {
    const __u32 *from = flow->from, *to = flow->to;
    __u64 hash = dcgym_hash(seed, (__u64)from[0] << 32 | to[0]);

    if (flow->is_ipv6) {
        hash = dcgym_hash(hash, (__u64)from[1] << 32 | to[1]);
        hash = dcgym_hash(hash, (__u64)from[2] << 32 | from[3]);
        hash = dcgym_hash(hash, (__u64)to[2] << 32 | to[3]);
    }
    return dcgym_hash(hash, (__u64)flow->from_port << 32 | flow->to_port << 16 | flow->protocol);
}

#endif
