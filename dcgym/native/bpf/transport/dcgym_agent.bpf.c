// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcgym_agent: include/dcgym_agent.h says what it does. Each flow that sends has a slot of the
 * mapped arrays from its first ACK on; its generation tells it from the flow that had it before.
 *
 * A call that the kernel leaves out (see dctcp.bpf.c) costs one ACK; a release that is left out
 * keeps a slot until the loader clears them all.
 */
#include "tcp_ca.h"

#include "common/barrier.h"
#include "dcgym_agent.h"

/* Lives in icsk_ca_priv, which the kernel clears before init. */
struct control {
    struct dcgym_agent agent;
    __u32 slot;
    __u32 generation; /* of the slot; 0: none */
    bool is_begun;
};
_Static_assert(sizeof(struct control) <= sizeof(__u64[13]), "private state exceeds icsk_ca_priv");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, DCGYM_AGENT_SLOTS);
    __type(key, __u32);
    __type(value, struct dcgym_agent_flow);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, DCGYM_AGENT_SLOTS);
    __type(key, __u32);
    __type(value, struct dcgym_agent_command);
} commands SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_STACK);
    __uint(max_entries, DCGYM_AGENT_SLOTS);
    __uint(value_size, sizeof(__u32));
} free_slots SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_agent_control);
} controls SEC(".maps");

static __always_inline struct control *control_of(struct sock *sk) {
    return (struct control *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline struct dcgym_agent_control *shared(void) {
    __u32 zero = 0;

    return bpf_map_lookup_elem(&controls, &zero);
}

static __always_inline __u64 lease_us(void) {
    struct dcgym_agent_control *control = shared();

    return control ? *(volatile __u64 *)&control->lease_us : 0;
}

/* Not inlined, as is all that few ACKs need: code that is not run displaces none. */
static __noinline int begin(struct sock *sk) {
    struct control *control = control_of(sk);

    dcgym_agent_begin(&control->agent, tcp_sk(sk)->snd_cwnd);
    control->is_begun = true;
    return 0;
}

/* After the SYN-ACK has been acknowledged: the flow may have a slot already, and keeps it. */
SEC("struct_ops/agent_init")
void BPF_PROG(agent_init, struct sock *sk) {
    begin(sk);
}

static __always_inline void open_write(struct dcgym_agent_flow *flow) {
    *(volatile __u64 *)&flow->sequence = flow->sequence + 1;
    write_barrier();
}

static __always_inline void close_write(struct dcgym_agent_flow *flow) {
    write_barrier();
    *(volatile __u64 *)&flow->sequence = flow->sequence + 1;
}

/* Takes a slot for a flow that has none, or whose slot the loader took back. */
static __noinline int take_slot(struct sock *sk) {
    struct dcgym_agent_control *counters = shared();
    struct control *control = control_of(sk);
    struct dcgym_agent_flow *flow;
    __u32 slot = 0;

    control->generation = 0;
    if (!counters)
        return 0;
    if (bpf_map_pop_elem(&free_slots, &slot)) {
        __sync_fetch_and_add(&counters->n_without, 1);
        return 0;
    }
    flow = bpf_map_lookup_elem(&flows, &slot);
    if (!flow)
        return 0;
    open_write(flow);
    flow->generation = flow->generation + 1 ? flow->generation + 1 : 1;
    flow->state = DCGYM_AGENT_OPEN;
    flow->src_address = sk->__sk_common.skc_rcv_saddr;
    flow->dst_address = sk->__sk_common.skc_daddr;
    flow->src_port = sk->__sk_common.skc_num;
    flow->dst_port = __builtin_bswap16(sk->__sk_common.skc_dport);
    close_write(flow);
    control->slot = slot;
    control->generation = flow->generation;
    __sync_fetch_and_add(&counters->n_flows, 1);
    return 0;
}

static __always_inline struct dcgym_agent_flow *own_flow(struct sock *sk) {
    struct control *control = control_of(sk);
    struct dcgym_agent_flow *flow;
    __u32 slot = control->slot;

    if (!control->generation)
        return NULL;
    flow = bpf_map_lookup_elem(&flows, &slot);
    return flow && flow->generation == control->generation ? flow : NULL;
}

static __always_inline volatile struct dcgym_agent_command *command_of(__u32 slot) {
    return bpf_map_lookup_elem(&commands, &slot);
}

/* Whether a command is in force, or one waits that was not looked at. */
static __always_inline bool is_steered(const struct control *control) {
    volatile struct dcgym_agent_command *command = command_of(control->slot);

    return control->agent.flags || (command && command->sequence != control->agent.taken);
}

/* Copies the command for this flow, where there is a whole one that is not in force yet. */
static __always_inline bool read_command(const struct control *control,
                                         struct dcgym_agent_command *copy) {
    volatile struct dcgym_agent_command *command = command_of(control->slot);
    __u64 sequence;

    if (!command)
        return false;
    sequence = command->sequence;
    if (sequence & 1 || sequence == control->agent.taken)
        return false;
    read_barrier();
    copy->sequence = sequence;
    copy->pacing_bytes_per_s = command->pacing_bytes_per_s;
    copy->generation = command->generation;
    copy->flags = command->flags;
    copy->multiplier_q16 = command->multiplier_q16;
    copy->cwnd_packets = command->cwnd_packets;
    read_barrier();
    return command->sequence == sequence && copy->generation == control->generation;
}

static __noinline int obey(struct sock *sk, const struct dcgym_cc_ack *ack) {
    struct control *control = control_of(sk);
    struct dcgym_agent_command command = {};
    bool is_new = control->generation && read_command(control, &command);

    dcgym_agent_obey(&control->agent, ack, is_new ? &command : NULL, lease_us());
    return 0;
}

static __always_inline void show(struct sock *sk, struct dcgym_agent_flow *flow,
                                 const struct dcgym_cc_ack *ack) {
    const struct dcgym_agent *agent = &control_of(sk)->agent;
    const struct tcp_sock *tp = tcp_sk(sk);

    open_write(flow);
    flow->updated_us = ack->now_us;
    flow->rtt_sum_us = agent->rtt_sum_us;
    flow->pacing_bytes_per_s = sk->sk_pacing_rate;
    flow->taken = agent->taken;
    flow->taken_us = agent->taken_us;
    flow->sent_packets = tp->data_segs_out;
    flow->delivered_packets = tp->delivered;
    flow->lost_packets = tp->lost;
    flow->marked_packets = tp->delivered_ce;
    flow->rtts = agent->rtts;
    if (ack->rtt_us)
        flow->rtt_us = ack->rtt_us;
    flow->srtt_us = ack->srtt_us;
    flow->min_rtt_us = agent->min_rtt_us;
    flow->cwnd_packets = tp->snd_cwnd;
    flow->in_flight_packets = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
    flow->mss_bytes = ack->mss_bytes;
    flow->flags = agent->flags;
    flow->clamped = agent->clamped;
    flow->fallbacks = agent->fallbacks;
    close_write(flow);
}

/* The kernel asks for this value when a reduction begins; cong_control does not use its answer. */
SEC("struct_ops/agent_ssthresh")
__u32 BPF_PROG(agent_ssthresh, struct sock *sk) {
    return max_u32(tcp_sk(sk)->snd_cwnd, MIN_CWND);
}

SEC("struct_ops/agent_set_state")
void BPF_PROG(agent_set_state, struct sock *sk, __u8 new_state) {
    struct control *control = control_of(sk);
    __u8 state = ca_state_of(sk);
    __u64 now_us = tcp_sk(sk)->tcp_mstamp;

    if (!control->is_begun)
        return;
    if (new_state == TCP_CA_Loss)
        dcgym_agent_on_timeout(&control->agent, now_us, lease_us(), state != TCP_CA_Loss);
    else if (new_state == TCP_CA_Recovery && state != TCP_CA_Recovery)
        dcgym_agent_on_loss(&control->agent, now_us, lease_us());
}

static __always_inline struct dcgym_cc_ack ack_of(struct sock *sk, const struct rate_sample *rs) {
    const struct dcgym_agent *agent = &control_of(sk)->agent;
    const struct tcp_sock *tp = tcp_sk(sk);
    struct dcgym_cc_ack ack = {};

    ack.now_us = tp->tcp_mstamp;
    ack.rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0;
    ack.srtt_us = tp->srtt_us >> 3;
    ack.acked_packets = rs->acked_sacked;
    ack.mss_bytes = tp->mss_cache;
    ack.is_limited = ca_state_of(sk) != TCP_CA_Recovery &&
                     is_cwnd_limited(tp, agent->cwnd_packets, agent->ssthresh_packets);
    return ack;
}

/* A socket that was paced once stays so: at the kernel's rate, which delays nothing. */
static __always_inline void put_in_force(struct sock *sk, const struct dcgym_cc_ack *ack) {
    struct dcgym_agent *agent = &control_of(sk)->agent;
    struct dcgym_cc_decision decision = dcgym_agent_decide(agent, ack->mss_bytes, ack->srtt_us);

    tcp_sk(sk)->snd_cwnd = decision.cwnd_packets;
    if (!decision.pacing_bytes_per_s) {
        set_pacing_rate(sk, decision.cwnd_packets, agent->ssthresh_packets);
        return;
    }
    if (sk->sk_pacing_status == SK_PACING_NONE)
        sk->sk_pacing_status = SK_PACING_NEEDED;
    sk->sk_pacing_rate = decision.pacing_bytes_per_s;
}

SEC("struct_ops/agent_cong_control")
void BPF_PROG(agent_cong_control, struct sock *sk, __u32 ack, int flag,
              const struct rate_sample *rs) {
    struct control *control = control_of(sk);
    struct dcgym_agent_flow *flow;
    struct dcgym_cc_ack seen;

    if (!control->is_begun)
        begin(sk);
    flow = own_flow(sk);
    if (!flow) {
        take_slot(sk);
        flow = own_flow(sk);
    }
    seen = ack_of(sk, rs);
    dcgym_agent_measure(&control->agent, &seen);
    if (is_steered(control))
        obey(sk, &seen);
    dcgym_agent_go_on(&control->agent, &seen);
    put_in_force(sk, &seen);
    if (flow)
        show(sk, flow, &seen);
}

SEC("struct_ops/agent_undo_cwnd")
__u32 BPF_PROG(agent_undo_cwnd, struct sock *sk) {
    struct dcgym_agent *agent = &control_of(sk)->agent;

    dcgym_agent_undo(agent);
    return max_u32(tcp_sk(sk)->snd_cwnd, agent->cwnd_packets);
}

SEC("struct_ops/agent_release")
void BPF_PROG(agent_release, struct sock *sk) {
    struct control *control = control_of(sk);
    struct dcgym_agent_flow *flow = own_flow(sk);
    __u32 slot = control->slot;

    if (!flow)
        return;
    open_write(flow);
    flow->state = DCGYM_AGENT_CLOSED;
    close_write(flow);
    control->generation = 0;
    bpf_map_push_elem(&free_slots, &slot, BPF_ANY);
}

char LICENSE[] SEC("license") = "GPL";

SEC(".struct_ops")
struct tcp_congestion_ops agent_ops = {
    .init = (void *)agent_init,
    .release = (void *)agent_release,
    .ssthresh = (void *)agent_ssthresh,
    .cong_control = (void *)agent_cong_control,
    .set_state = (void *)agent_set_state,
    .undo_cwnd = (void *)agent_undo_cwnd,
    .name = DCGYM_CC_PLACEHOLDER,
};
