// SPDX-License-Identifier: GPL-2.0-only
/*
 * The struct_ops program of DCGYM_CONTROL, an algorithm of include/window_control.h.
 *
 * The window is kept in the algorithm's state and written at every ACK. A call of the kernel that
 * is left out (see dctcp.bpf.c) costs one ACK, and a lost init is made good at the first.
 */
#include "tcp_ca.h"

#include "window_control.h"

#include DCGYM_CONTROL_HEADER

#define STATE DCGYM_CONTROL_STATE
#define ALGORITHM DCGYM_CONTROL_NAME

/* Lives in icsk_ca_priv, which the kernel clears before init. */
struct control {
    STATE state;
    bool is_begun;
};
_Static_assert(sizeof(struct control) <= sizeof(__u64[13]), "private state exceeds icsk_ca_priv");

/* The only constant, so that the loader need not know where it lies. */
const volatile struct dcgym_cc_options options = {};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct dcgym_cc_trace);
} traces SEC(".maps");

static __always_inline struct control *control_of(struct sock *sk) {
    return (struct control *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline __u32 srtt_us_of(const struct tcp_sock *tp) {
    return tp->srtt_us >> 3;
}

static __always_inline struct dcgym_cc_decision decide(struct sock *sk) {
    const struct tcp_sock *tp = tcp_sk(sk);

    return ALGORITHM(decide)(&control_of(sk)->state, tp->mss_cache, srtt_us_of(tp));
}

static __always_inline void trace(struct sock *sk, __u32 event, const struct dcgym_cc_ack *ack) {
    struct dcgym_cc_traced *entry;
    struct dcgym_cc_trace *kept;
    __u64 index;

    if (!options.is_traced)
        return;
    kept = bpf_sk_storage_get(&traces, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
    if (!kept)
        return;
    index = kept->n_events++;
    if (index >= DCGYM_CC_TRACE_EVENTS)
        return;
    entry = &kept->events[index];
    entry->ack = *ack;
    entry->event = event;
    entry->decision = decide(sk);
}

static __always_inline struct dcgym_cc_ack times_of(const struct tcp_sock *tp) {
    struct dcgym_cc_ack ack = {};

    ack.now_us = tp->tcp_mstamp;
    ack.srtt_us = srtt_us_of(tp);
    ack.mss_bytes = tp->mss_cache;
    ack.base_rtt_us = options.base_rtt_us;
    ack.packet_ns = options.packet_ns;
    return ack;
}

static __always_inline void begin(struct sock *sk) {
    struct control *control = control_of(sk);

    ALGORITHM(begin)(&control->state, tcp_sk(sk)->snd_cwnd);
    control->is_begun = true;
}

/* Called after the SYN-ACK has been acknowledged: what came of that is forgotten. */
SEC("struct_ops/window_init")
void BPF_PROG(window_init, struct sock *sk) {
    begin(sk);
    if (options.is_traced)
        bpf_sk_storage_delete(&traces, sk);
}

/* The kernel asks for this value when a reduction begins; cong_control does not use its answer. */
SEC("struct_ops/window_ssthresh")
__u32 BPF_PROG(window_ssthresh, struct sock *sk) {
    return max_u32(tcp_sk(sk)->snd_cwnd, MIN_CWND);
}

SEC("struct_ops/window_set_state")
void BPF_PROG(window_set_state, struct sock *sk, __u8 new_state) {
    struct control *control = control_of(sk);
    struct dcgym_cc_ack ack = times_of(tcp_sk(sk));

    if (!control->is_begun)
        return;
    if (new_state == TCP_CA_Loss) {
        ALGORITHM(on_timeout)(&control->state);
        trace(sk, DCGYM_CC_TIMEOUT, &ack);
    } else if (new_state == TCP_CA_Recovery && new_state != ca_state_of(sk)) {
        ALGORITHM(on_loss)(&control->state, ack.now_us, ack.srtt_us);
        trace(sk, DCGYM_CC_LOSS, &ack);
    }
}

static __always_inline struct dcgym_cc_ack ack_of(struct sock *sk, int flag,
                                                  const struct rate_sample *rs) {
    const struct tcp_sock *tp = tcp_sk(sk);
    struct dcgym_cc_ack ack = times_of(tp);
    bool is_measured = rs->rtt_us > 0 && !(flag & FLAG_RETRANS_DATA_ACKED);

    ack.rtt_us = dcgym_cc_rtt_us(is_measured ? rs->rtt_us : 0, rs->acked_sacked,
                                 tp->tcp_mstamp - tp->first_tx_mstamp, tp->rtt_min.s[0].v);
    ack.acked_packets = rs->acked_sacked;
    ack.una_seq = tp->snd_una;
    ack.nxt_seq = tp->snd_nxt;
    ack.is_limited =
        BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) ||
        (control_of(sk)->state.in_slow_start && tp->snd_cwnd < 2 * tp->max_packets_out);
    return ack;
}

/* A socket that was paced once stays so: at the kernel's rate, which delays nothing. */
static __always_inline void put_in_force(struct sock *sk,
                                         const struct dcgym_cc_decision *decision) {
    bool in_slow_start = control_of(sk)->state.in_slow_start;

    tcp_sk(sk)->snd_cwnd = decision->cwnd_packets;
    if (!decision->pacing_bytes_per_s) {
        set_pacing_rate(sk, decision->cwnd_packets, in_slow_start ? INFINITE_SSTHRESH : 0);
        return;
    }
    if (sk->sk_pacing_status == SK_PACING_NONE)
        sk->sk_pacing_status = SK_PACING_NEEDED;
    sk->sk_pacing_rate = decision->pacing_bytes_per_s;
}

SEC("struct_ops/window_cong_control")
void BPF_PROG(window_cong_control, struct sock *sk, __u32 ack, int flag,
              const struct rate_sample *rs) {
    struct control *control = control_of(sk);
    struct dcgym_cc_decision decision;
    struct dcgym_cc_ack seen;

    if (!control->is_begun)
        begin(sk);
    seen = ack_of(sk, flag, rs);
    ALGORITHM(on_ack)(&control->state, &seen);
    trace(sk, DCGYM_CC_ACK, &seen);
    decision = decide(sk);
    put_in_force(sk, &decision);
}

SEC("struct_ops/window_undo_cwnd")
__u32 BPF_PROG(window_undo_cwnd, struct sock *sk) {
    struct dcgym_cc_ack ack = times_of(tcp_sk(sk));

    ALGORITHM(undo)(&control_of(sk)->state);
    trace(sk, DCGYM_CC_UNDO, &ack);
    return max_u32(tcp_sk(sk)->snd_cwnd, decide(sk).cwnd_packets);
}

char LICENSE[] SEC("license") = "GPL";

SEC(".struct_ops")
struct tcp_congestion_ops window_ops = {
    .init = (void *)window_init,
    .ssthresh = (void *)window_ssthresh,
    .cong_control = (void *)window_cong_control,
    .set_state = (void *)window_set_state,
    .undo_cwnd = (void *)window_undo_cwnd,
    .name = DCGYM_CC_PLACEHOLDER,
};
