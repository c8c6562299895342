/* SPDX-License-Identifier: GPL-2.0-only */
/* Order of memory accesses between a program and those who map its arrays. */
#ifndef DCGYM_BPF_BARRIER_H
#define DCGYM_BPF_BARRIER_H

/* Loads stay in program order on x86, and so do stores; elsewhere a value-returning atomic is a
 * full barrier. */
#ifdef __TARGET_ARCH_x86
#define read_barrier() asm volatile("" ::: "memory")
#else
#define read_barrier()                                                                             \
    ({                                                                                             \
        __u64 word = 0;                                                                            \
        __sync_fetch_and_add((volatile __u64 *)&word, 1);                                          \
    })
#endif
#define write_barrier() read_barrier()

#endif
