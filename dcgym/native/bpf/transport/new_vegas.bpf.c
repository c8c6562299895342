// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP New Vegas (TCP-NV), for kernels without the tcp_nv module.
 *
 * Written from what its author published: L. Brakmo, "TCP-NV: an update to TCP-Vegas" (2010), the
 * description of his Linux patch "tcp: add NV congestion control" (2016), and the parameters that
 * Linux documents for the module, whose defaults are the constants below. The idea: the rate that
 * the flow reached, times the least RTT, is the window that would have sufficed; anything above it
 * waits in a queue. A few packets (PAD) are wanted there, more are congestion.
 *
 * Left out: the bounds of the RTT that a sock_ops program may give the module. Ours, beside the
 * module as it is in Linux 6.18:
 *   - a decision leaves at least the least window, where the module leaves 2 packets;
 *   - timeouts of the same data slow growth once, where the module slows it each time;
 *   - what slow start leaves of an ACK adds nothing to the linear growth behind it;
 *   - measurements count in the state CWR too.
 */
#include "tcp_ca.h"

#include "new_vegas.h"

#define PAD 10u                 /* packets that may wait in the network */
#define PAD_BUFFER 2u           /* so close below the wanted window the window stands still */
#define RTT_WEIGHT 128u         /* of 256: weight of a new RTT in the moving average */
#define DECREASE_PER_128 38u    /* 30 % of the excess */
#define LOSS_PER_1024 819u      /* 80 % of the window is left after a loss */
#define SSTHRESH_PER_8 8u       /* of the wanted window */
#define MIN_RTT_PERIOD_MS 5000u /* plus or minus a quarter, at random */
#define FIRST_PERIOD_MS 2000u
#define DECREASE_SAMPLES 60u
#define INCREASE_SAMPLES 20u
#define SLOW_START_SAMPLES 30u
#define DECREASE_ROUNDS 2u
#define STOP_ROUNDS 10u /* growth ends when no decision came for so many RTTs */
#define CALM_DECISIONS 8u
#define MOST_SLOWED 8

/* Offloads can gather one RTT into one ACK; then the least window grows until there are more. */
#define LEAST_CWND 4u
#define LEAST_CWND_STEP 2u
#define LEAST_CWND_BOUND 81u

#define NO_RTT 0xffffffffu
#define NSEC_PER_MSEC 1000000u

/* Lives in icsk_ca_priv. */
struct new_vegas {
    __u64 max_rate; /* bytes/s, since the last decision */
    __u32 min_rtt_us;
    __u32 next_min_rtt_us; /* for the period to come */
    __u32 average_rtt_us;  /* 0: not measured */
    __u32 period_end_ms;
    __u32 round_end_seq;
    __u32 seen_una;
    __u32 ssthresh;
    __u32 loss_cwnd;  /* window before the last loss, for undo */
    __u32 cwnd;       /* as cong_control left it */
    __u32 cwnd_count; /* packets acknowledged towards the next increase */
    __u8 least_cwnd;
    __u8 samples;
    __u8 rounds;
    __u8 calm;   /* decisions without congestion */
    __s8 slowed; /* growth is one packet in 2^slowed RTTs, more with each timeout */
    bool may_grow;
    bool is_disturbed; /* a loss spoilt the measurements */
};
_Static_assert(sizeof(struct new_vegas) <= sizeof(__u64[13]), "private state exceeds icsk_ca_priv");

const volatile bool tracing = false;

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct dcgym_nv_trace);
} traces SEC(".maps");

static __always_inline struct new_vegas *state_of(struct sock *sk) {
    return (struct new_vegas *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline __u32 now_ms(void) {
    return bpf_ktime_get_ns() / NSEC_PER_MSEC;
}

static __always_inline void trace_decision(struct sock *sk, __u32 kind, __u32 cwnd, __u32 wanted,
                                           __u32 new_cwnd, __u32 acked) {
    const struct new_vegas *ca = state_of(sk);
    struct dcgym_nv_decision *entry;
    struct dcgym_nv_trace *trace;
    __u64 index;

    if (!tracing)
        return;
    trace = bpf_sk_storage_get(&traces, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
    if (!trace)
        return;
    index = trace->n_decisions++;
    if (index >= DCGYM_NV_TRACE_DECISIONS)
        return;
    entry = &trace->decisions[index];
    entry->time_ns = bpf_ktime_get_ns();
    entry->rate_bytes_per_s = ca->max_rate;
    entry->kind = kind;
    entry->min_rtt_us = ca->min_rtt_us;
    entry->mss_bytes = tcp_sk(sk)->mss_cache;
    entry->samples = ca->samples;
    entry->cwnd_packets = cwnd;
    entry->wanted_packets = wanted;
    entry->new_cwnd_packets = new_cwnd;
    entry->ssthresh_packets = ca->ssthresh;
    entry->least_cwnd_packets = ca->least_cwnd;
    entry->delivered_packets = tcp_sk(sk)->delivered;
    entry->acked_packets = acked;
}

static __always_inline void forget_measurements(const struct tcp_sock *tp, struct new_vegas *ca) {
    ca->max_rate = 0;
    ca->average_rtt_us = 0;
    ca->round_end_seq = tp->snd_una;
    ca->seen_una = tp->snd_una;
    ca->samples = 0;
    ca->rounds = 0;
    ca->calm = 0;
    ca->is_disturbed = false;
}

SEC("struct_ops/new_vegas_init")
void BPF_PROG(new_vegas_init, struct sock *sk) {
    struct new_vegas *ca = state_of(sk);

    forget_measurements(tcp_sk(sk), ca);
    ca->min_rtt_us = NO_RTT;
    ca->next_min_rtt_us = NO_RTT;
    ca->period_end_ms = now_ms() + FIRST_PERIOD_MS;
    ca->ssthresh = INFINITE_SSTHRESH;
    ca->loss_cwnd = 0;
    ca->cwnd = 0;
    ca->cwnd_count = 0;
    ca->least_cwnd = LEAST_CWND;
    ca->slowed = 0;
    ca->may_grow = true;
}

/* The kernel asks for this value when a reduction begins; cong_control does not use its answer. */
SEC("struct_ops/new_vegas_ssthresh")
__u32 BPF_PROG(new_vegas_ssthresh, struct sock *sk) {
    return max_u32(tcp_sk(sk)->snd_cwnd, MIN_CWND);
}

static __always_inline void react_to_loss(struct sock *sk) {
    struct new_vegas *ca = state_of(sk);
    __u32 cwnd = known_cwnd(tcp_sk(sk), ca->cwnd, ca->loss_cwnd);

    ca->loss_cwnd = cwnd;
    ca->ssthresh = max_u32(((__u64)cwnd * LOSS_PER_1024) >> 10, MIN_CWND);
    trace_decision(sk, DCGYM_NV_LOSS, cwnd, cwnd, ca->ssthresh, 0);
}

/* A timeout lowers the window before it sets the state: its ssthresh is taken from the event. */
SEC("struct_ops/new_vegas_cwnd_event")
void BPF_PROG(new_vegas_cwnd_event, struct sock *sk, enum tcp_ca_event event) {
    if (event == CA_EVENT_LOSS)
        react_to_loss(sk);
}

SEC("struct_ops/new_vegas_set_state")
void BPF_PROG(new_vegas_set_state, struct sock *sk, __u8 new_state) {
    struct new_vegas *ca = state_of(sk);

    if (new_state == ca_state_of(sk))
        return;
    if (new_state == TCP_CA_Open && ca->is_disturbed) {
        forget_measurements(tcp_sk(sk), ca);
        return;
    }
    if (new_state == TCP_CA_Open || new_state == TCP_CA_Disorder)
        return;
    if (new_state != TCP_CA_Loss)
        react_to_loss(sk);
    else if (ca->slowed < MOST_SLOWED)
        ca->slowed++;
    ca->is_disturbed = true;
    ca->may_grow = false;
}

/* The least RTT is kept for one period and for the next: routes change, and so does the least RTT.
 */
static __always_inline void age_min_rtt(struct new_vegas *ca) {
    __u32 now = now_ms();

    if (before(now, ca->period_end_ms))
        return;
    ca->min_rtt_us = ca->next_min_rtt_us;
    ca->next_min_rtt_us = NO_RTT;
    ca->period_end_ms =
        now + MIN_RTT_PERIOD_MS * 3 / 4 + bpf_get_prandom_u32() % (MIN_RTT_PERIOD_MS / 2);
    ca->least_cwnd = max_u32(ca->least_cwnd / 2, LEAST_CWND);
}

/* Rate: what was delivered from the sending of the packet to its acknowledgement, over its RTT. */
static __always_inline bool measure(const struct tcp_sock *tp, struct new_vegas *ca,
                                    const struct rate_sample *rs) {
    __u32 rtt_us;
    __u64 rate;

    if (rs->rtt_us < 0 || rs->delivered <= 0)
        return false;
    rtt_us = max_u32(rs->rtt_us, 1);
    if (ca->average_rtt_us)
        rtt_us =
            ((__u64)rtt_us * RTT_WEIGHT + (__u64)ca->average_rtt_us * (256 - RTT_WEIGHT)) / 256;
    else
        ca->min_rtt_us = rtt_us;
    ca->average_rtt_us = max_u32(rtt_us, 1);
    rate = (__u64)rs->delivered * tp->mss_cache * USEC_PER_SEC / ca->average_rtt_us;
    if (rate > ca->max_rate)
        ca->max_rate = rate;
    if (ca->samples < 255)
        ca->samples++;
    ca->min_rtt_us = min_u32(ca->min_rtt_us, rtt_us);
    ca->next_min_rtt_us = min_u32(ca->next_min_rtt_us, rtt_us);
    age_min_rtt(ca);
    return true;
}

/* One measurement in a whole RTT, for a whole window: the ACKs come too seldom for this window. */
static __always_inline bool raise_least_cwnd(const struct tcp_sock *tp, struct new_vegas *ca,
                                             __u32 acked_bytes) {
    if (ca->samples != 1 || ca->least_cwnd >= LEAST_CWND_BOUND ||
        acked_bytes < (ca->least_cwnd - 1u) * tp->mss_cache)
        return false;
    ca->least_cwnd = min_u32(ca->least_cwnd + LEAST_CWND_STEP, LEAST_CWND_BOUND);
    ca->round_end_seq = tp->snd_nxt + ca->least_cwnd * tp->mss_cache;
    ca->samples = 0;
    ca->may_grow = true;
    return true;
}

/* Is there enough evidence to shrink? Without it for too long, growth at least ends. */
static __always_inline bool may_decrease(struct new_vegas *ca) {
    if (ca->rounds < DECREASE_ROUNDS)
        return false;
    if (ca->ssthresh == INFINITE_SSTHRESH)
        return ca->samples >= SLOW_START_SAMPLES;
    if (ca->samples >= DECREASE_SAMPLES)
        return true;
    if (ca->rounds > STOP_ROUNDS)
        ca->may_grow = false;
    return false;
}

/* By a part of the excess, at least two packets; the last two at once. */
static __always_inline __u32 decrease(struct new_vegas *ca, __u32 cwnd, __u32 wanted) {
    __u32 excess = cwnd - wanted;

    ca->may_grow = false;
    ca->ssthresh = max_u32((__u64)wanted * SSTHRESH_PER_8 / 8, MIN_CWND);
    ca->calm = 0;
    if (excess <= 2)
        return wanted;
    return cwnd - max_u32(((__u64)excess * DECREASE_PER_128) >> 7, 2);
}

static __always_inline void allow_growth(struct new_vegas *ca) {
    ca->may_grow = true;
    ca->calm++;
    if (ca->slowed > 0 && ca->calm > CALM_DECISIONS) {
        ca->slowed--;
        ca->calm = 0;
    }
}

/* Once an RTT: compare the window with the one that the reached rate needs. */
static __always_inline __u32 decide(struct sock *sk, struct new_vegas *ca, __u32 cwnd,
                                    __u32 acked) {
    const struct tcp_sock *tp = tcp_sk(sk);
    __u32 wanted, before_cwnd = cwnd, kind = DCGYM_NV_INCREASE;

    if (!tp->mss_cache)
        return cwnd;
    wanted = ca->max_rate * ca->min_rtt_us / USEC_PER_SEC / tp->mss_cache + PAD;
    if (cwnd > wanted) {
        if (!may_decrease(ca))
            return cwnd;
        cwnd = decrease(ca, cwnd, wanted);
        kind = DCGYM_NV_DECREASE;
    } else if (cwnd + PAD_BUFFER <= wanted) {
        if (ca->samples < INCREASE_SAMPLES)
            return cwnd;
        allow_growth(ca);
    } else {
        return cwnd;
    }
    cwnd = max_u32(cwnd, ca->least_cwnd);
    trace_decision(sk, kind, before_cwnd, wanted, cwnd, acked);
    ca->samples = 0;
    ca->rounds = 0;
    ca->max_rate = 0;
    return cwnd;
}

static __always_inline __u32 avoid(struct sock *sk, struct new_vegas *ca, __u32 cwnd,
                                   const struct rate_sample *rs) {
    const struct tcp_sock *tp = tcp_sk(sk);
    __u32 acked_bytes = tp->snd_una - ca->seen_una;

    ca->seen_una = tp->snd_una;
    if (!measure(tp, ca, rs) || !before(ca->round_end_seq, tp->snd_una))
        return cwnd;
    ca->round_end_seq = tp->snd_nxt;
    if (ca->rounds < 255)
        ca->rounds++;
    return raise_least_cwnd(tp, ca, acked_bytes) ? cwnd : decide(sk, ca, cwnd, rs->acked_sacked);
}

/* Slow start below ssthresh, then one packet in 2^slowed RTTs, while no congestion is seen. */
static __always_inline __u32 grow(const struct tcp_sock *tp, struct new_vegas *ca, __u32 cwnd,
                                  __u32 acked) {
    __u32 step = max_u32(cwnd << (ca->slowed & 15), 4), steps;

    if (!ca->may_grow || !is_cwnd_limited(tp, cwnd, ca->ssthresh))
        return cwnd;
    if (cwnd < ca->ssthresh)
        return min_u32(cwnd + acked, ca->ssthresh);
    ca->cwnd_count += acked;
    steps = ca->cwnd_count / step;
    ca->cwnd_count -= steps * step;
    return cwnd + steps;
}

/* The window is kept here, not by the kernel's reduction to ssthresh: see dctcp.bpf.c. */
SEC("struct_ops/new_vegas_cong_control")
void BPF_PROG(new_vegas_cong_control, struct sock *sk, __u32 ack, int flag,
              const struct rate_sample *rs) {
    struct tcp_sock *tp = tcp_sk(sk);
    struct new_vegas *ca = state_of(sk);
    __u32 cwnd = known_cwnd(tp, ca->cwnd, ca->loss_cwnd);
    __u8 state = ca_state_of(sk);

    if (state == TCP_CA_Recovery || state == TCP_CA_CWR)
        cwnd = min_u32(cwnd, ca->ssthresh);
    if (state != TCP_CA_Recovery && state != TCP_CA_Loss) {
        cwnd = avoid(sk, ca, cwnd, rs);
        cwnd = grow(tp, ca, cwnd, rs->acked_sacked);
    }
    tp->snd_cwnd = cwnd;
    ca->cwnd = cwnd;
    set_pacing_rate(sk, cwnd, ca->ssthresh);
}

SEC("struct_ops/new_vegas_undo_cwnd")
__u32 BPF_PROG(new_vegas_undo_cwnd, struct sock *sk) {
    struct new_vegas *ca = state_of(sk);

    ca->ssthresh = max_u32(ca->ssthresh, ca->loss_cwnd);
    return max_u32(known_cwnd(tcp_sk(sk), ca->cwnd, ca->loss_cwnd), ca->loss_cwnd);
}

char LICENSE[] SEC("license") = "GPL";

SEC(".struct_ops")
struct tcp_congestion_ops new_vegas_ops = {
    .init = (void *)new_vegas_init,
    .ssthresh = (void *)new_vegas_ssthresh,
    .cong_control = (void *)new_vegas_cong_control,
    .set_state = (void *)new_vegas_set_state,
    .cwnd_event = (void *)new_vegas_cwnd_event,
    .undo_cwnd = (void *)new_vegas_undo_cwnd,
    .name = DCGYM_CC_PLACEHOLDER,
};
