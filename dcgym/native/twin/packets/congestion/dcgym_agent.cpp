// SPDX-License-Identifier: Apache-2.0
// dcgym_agent, as include/dcgym_agent.h says and bpf/transport/dcgym_agent.bpf.c has it.
#include "dcgym_agent.hpp"

#include <algorithm>

namespace dcgym::twin::packets {
namespace {

struct AgentControl {
    dcgym_agent agent;
    dcgym_agent_command command; // newest; sequence 0: none
    uint64_t lease_us;
    uint64_t updated_us;
    uint32_t rtt_us;
};

uint64_t now_us(const Sender &sender) {
    return static_cast<uint64_t>(sender.now_ns / 1000);
}

AgentControl &control_of(Sender &sender) {
    return sender.private_state<AgentControl>();
}

const AgentControl &control_of(const Sender &sender) {
    return const_cast<Sender &>(sender).private_state<AgentControl>();
}

void agent_init(Sender &sender) {
    AgentControl &control = control_of(sender);
    control = {};
    dcgym_agent_begin(&control.agent, sender.snd_cwnd);
}

// The window is kept by cong_control: what the kernel asks for here it does not use.
uint32_t agent_ssthresh(Sender &sender) {
    return std::max(sender.snd_cwnd, 2U);
}

void agent_set_state(Sender &sender, CaState next) {
    AgentControl &control = control_of(sender);
    if (next == CaState::loss)
        dcgym_agent_on_timeout(&control.agent, now_us(sender), control.lease_us,
                               sender.state != CaState::loss);
    else if (next == CaState::recovery && sender.state != CaState::recovery)
        dcgym_agent_on_loss(&control.agent, now_us(sender), control.lease_us);
}

bool is_limited(const Sender &sender, const dcgym_agent &agent) {
    if (sender.state == CaState::recovery)
        return false;
    if (dcgym_agent_in_slow_start(&agent))
        return agent.cwnd_packets < 2 * sender.max_packets_out;
    return sender.is_cwnd_limited;
}

void put_in_force(Sender &sender, AgentControl &control) {
    const dcgym_cc_decision decision =
        dcgym_agent_decide(&control.agent, sender.mss_bytes, sender.srtt_us >> 3);
    sender.snd_cwnd = decision.cwnd_packets;
    if (decision.pacing_bytes_per_s == 0)
        return update_pacing_rate(sender, decision.cwnd_packets, control.agent.ssthresh_packets);
    sender.is_paced = true;
    sender.pacing_rate = std::min<uint64_t>(decision.pacing_bytes_per_s, sender.max_pacing_rate);
}

void agent_cong_control(Sender &sender, const RateSample &sample) {
    AgentControl &control = control_of(sender);
    dcgym_cc_ack ack{};
    ack.now_us = control.updated_us = now_us(sender);
    ack.rtt_us = static_cast<uint32_t>(std::max(sample.rtt_us, 0));
    ack.srtt_us = sender.srtt_us >> 3;
    ack.acked_packets = sample.acked_sacked;
    ack.mss_bytes = sender.mss_bytes;
    ack.is_limited = is_limited(sender, control.agent);
    if (ack.rtt_us != 0)
        control.rtt_us = ack.rtt_us;
    const bool has_command = control.command.sequence != 0;
    dcgym_agent_on_ack(&control.agent, &ack, has_command ? &control.command : nullptr,
                       control.lease_us);
    put_in_force(sender, control);
}

uint32_t agent_undo_cwnd(Sender &sender) {
    dcgym_agent &agent = control_of(sender).agent;
    dcgym_agent_undo(&agent);
    return std::max(sender.snd_cwnd, agent.cwnd_packets);
}

} // namespace

constinit const CongestionOps dcgym_agent_ops = {
    .ssthresh = agent_ssthresh,
    .init = agent_init,
    .set_state = agent_set_state,
    .cong_control = agent_cong_control,
    .undo_cwnd = agent_undo_cwnd,
};

bool runs_agent(const Sender &sender) {
    return sender.ca == &dcgym_agent_ops;
}

dcgym_agent_flow show_flow(const Sender &sender) {
    const AgentControl &control = control_of(sender);
    const dcgym_agent &agent = control.agent;
    dcgym_agent_flow flow{};
    flow.updated_us = control.updated_us;
    flow.rtt_sum_us = agent.rtt_sum_us;
    flow.pacing_bytes_per_s = sender.pacing_rate;
    flow.taken = agent.taken;
    flow.taken_us = agent.taken_us;
    flow.state = DCGYM_AGENT_OPEN;
    flow.sent_packets = sender.segments_sent;
    flow.delivered_packets = sender.delivered;
    flow.lost_packets = sender.lost;
    flow.marked_packets = sender.delivered_ce;
    flow.rtts = agent.rtts;
    flow.rtt_us = control.rtt_us;
    flow.srtt_us = sender.srtt_us >> 3;
    flow.min_rtt_us = agent.min_rtt_us;
    flow.cwnd_packets = sender.snd_cwnd;
    flow.in_flight_packets = sender.packets_in_flight();
    flow.mss_bytes = sender.mss_bytes;
    flow.flags = agent.flags;
    flow.clamped = agent.clamped;
    flow.fallbacks = agent.fallbacks;
    return flow;
}

void command_flow(Sender &sender, const dcgym_agent_command &command) {
    AgentControl &control = control_of(sender);
    // Even, as the kernel's program finds it between two writes.
    const uint64_t sequence = control.command.sequence + 2;
    control.command = command;
    control.command.sequence = sequence;
}

void renew_lease(Sender &sender, uint64_t lease_us) {
    control_of(sender).lease_us = lease_us;
}

} // namespace dcgym::twin::packets
