/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Stands in for libbpf's header, so that BPF programs compile for user space; maps.h has bodies. */
#ifndef DCGYM_FUZZ_BPF_HELPERS_H
#define DCGYM_FUZZ_BPF_HELPERS_H

#include <linux/types.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define SEC(name)
#define __ksym
#define __noinline __attribute__((noinline))
#define barrier_var(variable) asm volatile("" : "+r"(variable))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

struct __sk_buff;
struct xdp_md;

void *bpf_map_lookup_elem(void *map, const void *key);
long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
long bpf_loop(__u32 times, void *callback, void *context, __u64 flags);
long bpf_ringbuf_output(void *ring, const void *data, __u64 bytes, __u64 flags);
long bpf_probe_read_kernel(void *to, __u32 bytes, const void *from);
long bpf_redirect(__u32 ifindex, __u64 flags);
long bpf_check_mtu(void *context, __u32 ifindex, __u32 *mtu, __s32 more, __u64 flags);
__s64 bpf_csum_diff(void *from, __u32 from_bytes, void *to, __u32 to_bytes, __u32 seed);
long bpf_l4_csum_replace(struct __sk_buff *skb, __u32 at, __u64 from, __u64 to, __u64 flags);
long bpf_skb_adjust_room(struct __sk_buff *skb, __s32 more, __u32 mode, __u64 flags);
long bpf_skb_change_tail(struct __sk_buff *skb, __u32 bytes, __u64 flags);
long bpf_skb_store_bytes(struct __sk_buff *skb, __u32 at, const void *from, __u32 bytes,
                         __u64 flags);
long bpf_skb_load_bytes(const void *skb, __u32 at, void *to, __u32 bytes);
long bpf_xdp_load_bytes(struct xdp_md *xdp, __u32 at, void *to, __u32 bytes);
long bpf_xdp_adjust_head(struct xdp_md *xdp, int bytes);
long bpf_clone_redirect(struct __sk_buff *skb, __u32 ifindex, __u64 flags);
long bpf_skb_ecn_set_ce(struct __sk_buff *skb);
long bpf_skb_pull_data(struct __sk_buff *skb, __u32 bytes);
long bpf_spin_lock(struct bpf_spin_lock *lock);
long bpf_spin_unlock(struct bpf_spin_lock *lock);
long bpf_timer_init(struct bpf_timer *timer, void *map, __u64 flags);
long bpf_timer_set_callback(struct bpf_timer *timer, void *callback);
long bpf_timer_start(struct bpf_timer *timer, __u64 after_ns, __u64 flags);
__u32 bpf_get_prandom_u32(void);
__u64 bpf_ktime_get_ns(void);

#endif
