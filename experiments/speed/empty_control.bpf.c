// SPDX-License-Identifier: GPL-2.0-only
/*
 * A congestion control that does nothing at an ACK: what the kernel's statistics count of it is
 * their clock. Its window stays the first one, of ten packets.
 */
#include "transport/tcp_ca.h"

SEC("struct_ops/empty_ssthresh")
__u32 BPF_PROG(empty_ssthresh, struct sock *sk) {
    return MIN_CWND;
}

SEC("struct_ops/empty_cong_control")
void BPF_PROG(empty_cong_control, struct sock *sk, __u32 ack, int flag,
              const struct rate_sample *rs) {}

SEC("struct_ops/empty_undo_cwnd")
__u32 BPF_PROG(empty_undo_cwnd, struct sock *sk) {
    return tcp_sk(sk)->snd_cwnd;
}

char LICENSE[] SEC("license") = "GPL";

SEC(".struct_ops")
struct tcp_congestion_ops empty_ops = {
    .ssthresh = (void *)empty_ssthresh,
    .cong_control = (void *)empty_cong_control,
    .undo_cwnd = (void *)empty_undo_cwnd,
    .name = DCGYM_CC_PLACEHOLDER,
};
