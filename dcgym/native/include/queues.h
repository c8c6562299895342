/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What queues.bpf.c writes and the collector reads: the kernel's own figures of root queues. */
#ifndef DCGYM_QUEUES_H
#define DCGYM_QUEUES_H

#include <linux/types.h>

/* One record an interface, in a memory-mapped array map. Cumulative, but the kernel counts drops
 * and overlimits in 32 bits. */
struct dcgym_queue {
    __u64 tx_bytes; /* left the queue, headers of all segments included */
    __u64 tx_packets;
    __u64 backlog_bytes;
    __u32 drops;
    __u32 overlimits;
};

#endif
