/* SPDX-License-Identifier: GPL-2.0-only */
/* The queue that a packet meets: how long it is, its peak and its histogram. */
#ifndef DCGYM_BPF_BACKLOG_H
#define DCGYM_BPF_BACKLOG_H

#include "fabric.h"
#include "kernel_queue.h"

#define PEAK_RETRIES 8

static __always_inline __u64 backlog_bytes(struct __sk_buff *skb) {
    struct sk_buff *kernel_skb = bpf_cast_to_kern_ctx(skb);

    return kernel_skb->dev->qdisc->qstats.backlog;
}

/* Several CPUs enqueue and a reader resets, so this is a maximum by compare-and-swap. */
static __always_inline void raise_peak(__u64 *peak, __u64 bytes) {
    for (int i = 0; i < PEAK_RETRIES; i++) {
        __u64 seen = *(volatile __u64 *)peak;

        if (seen >= bytes || __sync_val_compare_and_swap(peak, seen, bytes) == seen)
            return;
    }
}

static __always_inline __u32 log2_floor(__u64 value) {
    __u32 result = 0;

#pragma unroll
    for (int shift = 16; shift; shift >>= 1) {
        if (value >> shift) {
            value >>= shift;
            result += shift;
        }
    }
    return result;
}

static __always_inline __u32 bucket(__u64 backlog) {
    __u32 log2 = log2_floor(backlog);

    if (!backlog)
        return 0;
    if (log2 <= 8)
        return 1;
    return log2 - 7 < DCGYM_HISTOGRAM_BUCKETS ? log2 - 7 : DCGYM_HISTOGRAM_BUCKETS - 1;
}

#endif
