// SPDX-License-Identifier: GPL-2.0-only
/* Data Center TCP after RFC 8257, for kernels without the tcp_dctcp module. */
#include "tcp_ca.h"

#include <bpf/bpf_endian.h>
#include <linux/in.h>

#include "common/labels.h"
#include "dctcp.h"
#include "window_control.h"

#define GAIN_SHIFT 4 /* g = 1/16, RFC 8257, section 4.2 */

/* Lives in icsk_ca_priv. */
struct dctcp {
    __u32 window_delivered;
    __u32 window_marked;
    __u32 window_end_seq;
    __u32 prior_rcv_nxt;
    __u32 alpha;
    __u32 loss_cwnd; /* window before the last reduction, for undo */
    __u32 ssthresh;
    __u32 cwnd;        /* as cong_control left it */
    __u32 cwnd_count;  /* packets acknowledged towards the next increase */
    __u32 reduced_seq; /* no second reduction before this is acknowledged */
    __u32 seen_ce;
    bool ce_state;
    struct dcgym_plb plb;
};
_Static_assert(sizeof(struct dctcp) <= sizeof(__u64[13]), "private state exceeds icsk_ca_priv");

const volatile struct dcgym_cc_options options = {};

static char fallback[] = "reno";

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct dcgym_dctcp_trace);
} traces SEC(".maps");

static __always_inline struct dctcp *state_of(struct sock *sk) {
    return (struct dctcp *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline struct dcgym_dctcp_trace *trace_of(struct sock *sk) {
    if (!options.is_traced)
        return NULL;
    return bpf_sk_storage_get(&traces, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

static __always_inline void trace_window(struct sock *sk, const struct dcgym_dctcp_window *window) {
    struct dcgym_dctcp_trace *trace = trace_of(sk);

    if (!trace)
        return;
    trace->windows[trace->n_windows % DCGYM_TRACE_WINDOWS] = *window;
    trace->n_windows++;
}

static __always_inline void trace_reduction(struct sock *sk, __u32 alpha, __u32 cwnd,
                                            __u32 ssthresh) {
    struct dcgym_dctcp_trace *trace = trace_of(sk);
    struct dcgym_dctcp_reduction *entry;

    if (!trace)
        return;
    entry = &trace->reductions[trace->n_reductions % DCGYM_TRACE_REDUCTIONS];
    entry->window = trace->n_windows;
    entry->alpha = alpha;
    entry->cwnd_packets = cwnd;
    entry->ssthresh_packets = ssthresh;
    trace->n_reductions++;
}

static __always_inline void start_window(const struct tcp_sock *tp, struct dctcp *ca) {
    ca->window_end_seq = tp->snd_nxt;
    ca->window_delivered = tp->delivered;
    ca->window_marked = tp->delivered_ce;
}

static __always_inline void relabel(struct sock *sk) {
    const struct sock_common *common = &sk->__sk_common;
    struct dcgym_labelled_flow flow = {};
    struct dcgym_label label = {};

    if (common->skc_family != AF_INET)
        return;
    flow.source[0] = common->skc_rcv_saddr;
    flow.destination[0] = common->skc_daddr;
    flow.ports = bpf_htons(common->skc_num) | (__u32)common->skc_dport << 16;
    flow.protocol = IPPROTO_TCP;
    label.label = bpf_get_prandom_u32();
    label.moves = state_of(sk)->plb.moves;
    bpf_map_update_elem(&labels, &flow, &label, BPF_ANY);
}

static __always_inline void move_if_due(struct sock *sk) {
    const struct dcgym_plb_limits limits = options.plb;
    const struct tcp_sock *tp = tcp_sk(sk);

    if (limits.rounds &&
        dcgym_plb_moves(&state_of(sk)->plb, &limits, !tp->packets_out, tp->tcp_mstamp * 1000))
        relabel(sk);
}

/* Once a window, as tcp_dctcp.c of Linux 6.2 calls tcp_plb_update_state. */
static __always_inline void avoid_marks(struct sock *sk, const struct dcgym_dctcp_window *window) {
    const struct dcgym_plb_limits limits = options.plb;

    dcgym_plb_round(&state_of(sk)->plb, &limits, window->delivered_packets, window->marked_packets);
    move_if_due(sk);
}

static __always_inline void suspend_moves(struct sock *sk) {
    const struct dcgym_plb_limits limits = options.plb;

    dcgym_plb_suspend(&state_of(sk)->plb, &limits, tcp_sk(sk)->tcp_mstamp * 1000,
                      bpf_get_prandom_u32());
}

static __always_inline void leave_after_timeout(struct sock *sk) {
    if (!options.plb.rounds)
        return;
    dcgym_plb_timeout(&state_of(sk)->plb);
    relabel(sk);
}

SEC("struct_ops/dctcp_init")
void BPF_PROG(dctcp_init, struct sock *sk) {
    const struct tcp_sock *tp = tcp_sk(sk);
    struct dctcp *ca = state_of(sk);

    /* RFC 8257, section 3.5: a peer without ECN gets conventional congestion control. */
    if (!(tp->ecn_flags & TCP_ECN_OK)) {
        bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
        return;
    }
    ca->alpha = DCGYM_ALPHA_ONE; /* section 4.2: the conservative initial value */
    ca->prior_rcv_nxt = tp->rcv_nxt;
    ca->loss_cwnd = 0;
    ca->ssthresh = INFINITE_SSTHRESH;
    ca->cwnd = 0;
    ca->cwnd_count = 0;
    ca->reduced_seq = tp->snd_una;
    ca->seen_ce = tp->delivered_ce;
    ca->ce_state = false;
    ca->plb.suspended_until_ns = 0;
    ca->plb.congested_rounds = ca->plb.moves = 0;
    start_window(tp, ca);
}

/* The kernel asks for this value when a reduction begins; cong_control does not use its answer. */
SEC("struct_ops/dctcp_ssthresh")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk) {
    __u32 cwnd = tcp_sk(sk)->snd_cwnd;

    return cwnd > MIN_CWND ? cwnd : MIN_CWND;
}

/* RFC 8257, section 3.3: alpha <- alpha * (1 - g) + g * M, once a window. */
SEC("struct_ops/dctcp_in_ack_event")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags) {
    const struct tcp_sock *tp = tcp_sk(sk);
    struct dctcp *ca = state_of(sk);
    struct dcgym_dctcp_window window = {};
    __u64 fraction;

    if (before(tp->snd_una, ca->window_end_seq))
        return;
    window.delivered_packets = tp->delivered - ca->window_delivered;
    window.marked_packets = tp->delivered_ce - ca->window_marked;
    if (!window.delivered_packets)
        return;
    fraction = ((__u64)window.marked_packets << DCGYM_ALPHA_BITS) / window.delivered_packets;
    window.alpha = ca->alpha - (ca->alpha >> GAIN_SHIFT) + (fraction >> GAIN_SHIFT);
    if (window.alpha > DCGYM_ALPHA_ONE)
        window.alpha = DCGYM_ALPHA_ONE;
    window.cwnd_packets = tp->snd_cwnd;
    ca->alpha = window.alpha;
    trace_window(sk, &window);
    avoid_marks(sk, &window);
    start_window(tp, ca);
}

/* Section 3.5: a lost packet is answered as in conventional TCP, by halving. */
static __always_inline void react_to_loss(struct sock *sk) {
    struct dctcp *ca = state_of(sk);
    __u32 cwnd = known_cwnd(tcp_sk(sk), ca->cwnd, ca->loss_cwnd);

    ca->loss_cwnd = cwnd;
    ca->ssthresh = max_u32(cwnd / 2, MIN_CWND);
}

SEC("struct_ops/dctcp_set_state")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 new_state) {
    if (new_state == TCP_CA_Recovery && new_state != ca_state_of(sk))
        react_to_loss(sk);
    else if (new_state == TCP_CA_Loss)
        leave_after_timeout(sk);
}

static __always_inline void echo(struct sock *sk, bool ce) {
    struct tcp_sock *tp = tcp_sk(sk);

    if (ce)
        tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
    else
        tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/*
 * Is an ACK owed for what came in the old state? The timer alone does not tell: since Linux 6.7
 * ACKs of a backlogged socket are deferred without it (tcp_backlog_ack_defer).
 */
static __always_inline bool owes_ack(struct sock *sk) {
    return (inet_csk(sk)->icsk_ack.pending & (ICSK_ACK_TIMER | ICSK_ACK_NOW)) ||
           before(tcp_sk(sk)->rcv_wup, state_of(sk)->prior_rcv_nxt);
}

/*
 * Section 3.2: when the CE state changes, an ACK owed goes out at once with the old state, so that
 * every ACK speaks for packets of one state only.
 */
static __always_inline void receive(struct sock *sk, bool ce) {
    struct inet_connection_sock *icsk = inet_csk(sk);
    struct dctcp *ca = state_of(sk);

    if (ca->ce_state != ce) {
        if (owes_ack(sk)) {
            echo(sk, ca->ce_state);
            bpf_tcp_send_ack(sk, ca->prior_rcv_nxt);
        }
        icsk->icsk_ack.pending |= ICSK_ACK_NOW;
    }
    ca->prior_rcv_nxt = tcp_sk(sk)->rcv_nxt;
    ca->ce_state = ce;
    echo(sk, ce);
}

SEC("struct_ops/dctcp_cwnd_event")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event) {
    if (event == CA_EVENT_ECN_IS_CE)
        receive(sk, true);
    else if (event == CA_EVENT_ECN_NO_CE)
        receive(sk, false);
    else if (event == CA_EVENT_LOSS) {
        react_to_loss(sk);
        suspend_moves(sk);
    } else if (event == CA_EVENT_TX_START)
        move_if_due(sk);
}

/* RFC 8257, section 3.3: cwnd * (1 - alpha / 2), to the nearest packet, once a window. */
static __always_inline __u32 reduce(struct sock *sk, struct dctcp *ca, __u32 cwnd) {
    __u64 cut = ((__u64)cwnd * ca->alpha + DCGYM_ALPHA_ONE) >> (DCGYM_ALPHA_BITS + 1);

    ca->loss_cwnd = cwnd;
    ca->ssthresh = cwnd - cut > MIN_CWND ? cwnd - cut : MIN_CWND;
    ca->reduced_seq = tcp_sk(sk)->snd_nxt;
    ca->cwnd_count = 0;
    trace_reduction(sk, ca->alpha, cwnd, ca->ssthresh);
    return ca->ssthresh;
}

/* RFC 5681: slow start below ssthresh, then one packet a window; nothing while the sender is idle.
 */
static __always_inline __u32 grow(const struct tcp_sock *tp, struct dctcp *ca, __u32 cwnd,
                                  __u32 acked) {
    if (!is_cwnd_limited(tp, cwnd, ca->ssthresh))
        return cwnd;
    if (cwnd < ca->ssthresh)
        return min_u32(cwnd + acked, ca->ssthresh);
    ca->cwnd_count += acked;
    if (ca->cwnd_count < cwnd)
        return cwnd;
    ca->cwnd_count -= cwnd;
    return cwnd + 1;
}

/*
 * The window is kept here, not by the kernel's reduction to ssthresh, whose answer can be lost
 * (known_cwnd). A call of this program that is lost costs one ACK.
 */
SEC("struct_ops/dctcp_cong_control")
void BPF_PROG(dctcp_cong_control, struct sock *sk, __u32 ack, int flag,
              const struct rate_sample *rs) {
    struct tcp_sock *tp = tcp_sk(sk);
    struct dctcp *ca = state_of(sk);
    __u32 cwnd = known_cwnd(tp, ca->cwnd, ca->loss_cwnd);
    __u8 state = ca_state_of(sk);
    bool marked = tp->delivered_ce != ca->seen_ce;

    ca->seen_ce = tp->delivered_ce;
    if (state == TCP_CA_Recovery)
        cwnd = cwnd < ca->ssthresh ? cwnd : ca->ssthresh;
    else if (state == TCP_CA_Loss)
        cwnd = grow(tp, ca, cwnd, rs->acked_sacked);
    else if (!before(tp->snd_una, ca->reduced_seq))
        cwnd = marked ? reduce(sk, ca, cwnd) : grow(tp, ca, cwnd, rs->acked_sacked);
    tp->snd_cwnd = cwnd;
    ca->cwnd = cwnd;
    set_pacing_rate(sk, cwnd, ca->ssthresh);
}

SEC("struct_ops/dctcp_undo_cwnd")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk) {
    struct dctcp *ca = state_of(sk);

    ca->ssthresh = max_u32(ca->ssthresh, ca->loss_cwnd);
    return max_u32(known_cwnd(tcp_sk(sk), ca->cwnd, ca->loss_cwnd), ca->loss_cwnd);
}

char LICENSE[] SEC("license") = "GPL";

SEC(".struct_ops")
struct tcp_congestion_ops dctcp_ops = {
    .init = (void *)dctcp_init,
    .ssthresh = (void *)dctcp_ssthresh,
    .cong_control = (void *)dctcp_cong_control,
    .set_state = (void *)dctcp_set_state,
    .cwnd_event = (void *)dctcp_cwnd_event,
    .in_ack_event = (void *)dctcp_in_ack_event,
    .undo_cwnd = (void *)dctcp_undo_cwnd,
    .flags = TCP_CONG_NEEDS_ECN,
    .name = DCGYM_CC_PLACEHOLDER,
};
