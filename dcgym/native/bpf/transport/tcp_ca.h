/* SPDX-License-Identifier: GPL-2.0-only */
/* What the congestion controls of this directory share: the kernel's types and a few helpers. */
#ifndef DCGYM_TCP_CA_H
#define DCGYM_TCP_CA_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "congestion.h"

#define INFINITE_SSTHRESH 0x7fffffffu
#define USEC_PER_SEC 1000000u
#define MIN_CWND 2u

#define AF_INET 2
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_CONG_NEEDS_ECN 0x2
#define TCP_ECN_OK 1
#define TCP_ECN_DEMAND_CWR 4
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16

/* enum sk_pacing: none, by TCP's own timer, by the queueing discipline fq. */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

/* net/ipv4/tcp_input.c: the acknowledged data includes some that was sent twice. */
#define FLAG_RETRANS_DATA_ACKED 8

#define CORE __attribute__((preserve_access_index))

enum tcp_ca_event {
    CA_EVENT_TX_START = 0,
    CA_EVENT_LOSS = 3,
    CA_EVENT_ECN_NO_CE = 4,
    CA_EVENT_ECN_IS_CE = 5,
};

enum tcp_ca_state {
    TCP_CA_Open = 0,
    TCP_CA_Disorder = 1,
    TCP_CA_CWR = 2,
    TCP_CA_Recovery = 3,
    TCP_CA_Loss = 4,
};

/* Only the members used here: CO-RE relocates them, so no vmlinux.h is needed. */
struct sock_common {
    __be32 skc_daddr;
    __be32 skc_rcv_saddr;
    __be16 skc_dport;
    __u16 skc_num;
    unsigned short skc_family;
} CORE;

struct sock {
    struct sock_common __sk_common;
    __u32 sk_mark;
    unsigned long sk_pacing_rate;
    __u32 sk_pacing_status; /* enum sk_pacing */
} CORE;

struct inet_connection_sock {
    __u8 icsk_ca_state : 5;
    struct {
        __u8 pending;
    } icsk_ack;
    __u64 icsk_ca_priv[13];
} CORE;

struct minmax_sample {
    __u32 v;
} CORE;

struct minmax {
    struct minmax_sample s[3];
} CORE;

struct tcp_sock {
    __u64 first_tx_mstamp; /* us, when the newest packet that was delivered had been sent */
    struct minmax rtt_min; /* us */
    __u64 tcp_mstamp;      /* us, of the newest packet received */
    __u32 rcv_wup;
    __u32 rcv_nxt;
    __u32 snd_nxt;
    __u32 snd_una;
    __u32 snd_cwnd;
    __u32 snd_ssthresh;
    __u32 data_segs_out;
    __u32 packets_out;
    __u32 sacked_out;
    __u32 lost_out;
    __u32 retrans_out;
    __u32 lost;
    __u32 delivered;
    __u32 delivered_ce;
    __u32 max_packets_out;
    __u32 srtt_us; /* eight times the smoothed RTT */
    __u32 mss_cache;
    __u8 is_cwnd_limited : 1;
    __u8 ecn_flags;
} CORE;

struct rate_sample {
    __s32 delivered; /* packets, since the acknowledged one was sent */
    long rtt_us;
    __u32 acked_sacked;
} CORE;

struct tcp_congestion_ops {
    __u32 (*ssthresh)(struct sock *sk);
    void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
    void (*set_state)(struct sock *sk, __u8 new_state);
    void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
    void (*in_ack_event)(struct sock *sk, __u32 flags);
    __u32 (*undo_cwnd)(struct sock *sk);
    char name[DCGYM_CC_NAME_BYTES];
    __u32 flags;
    void (*init)(struct sock *sk);
    void (*release)(struct sock *sk);
};

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk) {
    return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(struct sock *sk) {
    return (struct inet_connection_sock *)sk;
}

static __always_inline __u8 ca_state_of(struct sock *sk) {
    return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
}

/* As tcp_is_cwnd_limited: in slow start a window may be twice what the sender uses. */
static __always_inline bool is_cwnd_limited(const struct tcp_sock *tp, __u32 cwnd, __u32 ssthresh) {
    if (cwnd < ssthresh)
        return cwnd < 2 * tp->max_packets_out;
    return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

static __always_inline bool before(__u32 left, __u32 right) {
    return (__s32)(left - right) < 0;
}

static __always_inline __u32 max_u32(__u32 left, __u32 right) {
    return left > right ? left : right;
}

static __always_inline __u32 min_u32(__u32 left, __u32 right) {
    return left < right ? left : right;
}

/*
 * The window, of a control that keeps its own. Only an undo raises it elsewhere, to what it was
 * before the reduction. On a loaded machine with Linux 6.18 the answer of ssthresh or undo_cwnd now
 * and then is the low half of a kernel address, 2 billion packets: that is not believed, not even
 * for the moment until the next cong_control (an old ACK with a D-SACK undoes without one).
 */
static __always_inline __u32 known_cwnd(const struct tcp_sock *tp, __u32 kept, __u32 loss_cwnd) {
    __u32 cwnd = tp->snd_cwnd;

    return kept && cwnd > max_u32(kept, loss_cwnd) ? kept : cwnd;
}

/*
 * As tcp_update_pacing_rate, which the kernel leaves to a program with cong_control: twice the
 * window per RTT in slow start, else 1.2 times.
 */
static __always_inline void set_pacing_rate(struct sock *sk, __u32 cwnd, __u32 ssthresh) {
    const struct tcp_sock *tp = tcp_sk(sk);
    __u64 rate = (__u64)tp->mss_cache * cwnd * 8 * USEC_PER_SEC / 100;

    rate *= cwnd < ssthresh / 2 ? 200 : 120;
    if (tp->srtt_us)
        sk->sk_pacing_rate = rate / tp->srtt_us;
}

#endif
