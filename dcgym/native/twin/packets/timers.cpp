// SPDX-License-Identifier: Apache-2.0
// One leaf of the tree a flow: it holds the soonest of the flow's deadlines, or an earlier time.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr int64_t first_syn_timeout_ns = 1'000'000'000;
constexpr int64_t longest_rto_ns = 120'000'000'000;
constexpr uint32_t most_syns = 6; // sysctl tcp_syn_retries

} // namespace

void Simulation::arm(uint32_t slot) {
    const Flow &flow = flows_[slot];
    if (flow.stage == Flow::Stage::idle || flow.stage == Flow::Stage::ended)
        return tree_.set(leaf_of(slot), never);
    int64_t soonest_ns = flow.is_udp ? never : flow.deadline_ns;
    const auto consider = [&soonest_ns](int64_t at_ns) {
        if (at_ns != 0)
            soonest_ns = std::min(soonest_ns, at_ns);
    };
    consider(flow.datagrams.tick_ns);
    consider(flow.syn_timeout_ns);
    consider(flow.receiver.delayed_ack_ns);
    consider(flow.receiver.compressed_ack_ns);
    consider(flow.sender.pacing_ns);
    if (flow.sender.timer != Timer::none)
        consider(flow.sender.timer_ns);
    tree_.set(leaf_of(slot), soonest_ns);
}

void Simulation::on_timer(uint32_t slot) {
    Flow &flow = flows_[slot];
    if (flow.is_udp) {
        if (flow.datagrams.tick_ns != 0 && flow.datagrams.tick_ns <= now_ns_)
            udp_tick(slot);
    } else if (flow.deadline_ns <= now_ns_) {
        end(slot, Outcome::finished);
    } else {
        on_tcp_timers(slot);
    }
    arm(slot);
}

void Simulation::on_tcp_timers(uint32_t slot) {
    Flow &flow = flows_[slot];
    if (flow.syn_timeout_ns != 0 && flow.syn_timeout_ns <= now_ns_)
        send_syn(slot);
    Receiver &receiver = flow.receiver;
    const auto is_due = [this](int64_t at_ns) { return at_ns != 0 && at_ns <= now_ns_; };
    if (is_due(receiver.delayed_ack_ns) || is_due(receiver.compressed_ack_ns))
        send_ack(slot, receiver.rcv_nxt);
    Sender &sender = flow.sender;
    sender.now_ns = now_ns_;
    if (sender.pacing_ns != 0 && sender.pacing_ns <= now_ns_) {
        sender.pacing_ns = 0;
        write(slot);
    }
    if (sender.timer == Timer::none || sender.timer_ns > now_ns_)
        return;
    const Timer timer = sender.timer;
    sender.timer = Timer::none;
    if (timer == Timer::retransmit)
        on_retransmit_timeout(slot);
    else if (timer == Timer::probe)
        on_probe_timeout(slot);
    else
        on_reorder_timeout(slot);
}

void Simulation::send_syn(uint32_t slot) {
    Flow &flow = flows_[slot];
    if (flow.syns > most_syns)
        return end(slot, Outcome::refused);
    flow.syn_ns = now_ns_;
    flow.syn_timeout_ns = clock_.fires_ns(now_ns_, first_syn_timeout_ns << flow.syns);
    flow.syns++;
    Packet packet{};
    packet.flow = slot;
    packet.bytes = syn_bytes;
    packet.kind = Kind::syn;
    packet.flags = flow.sender.uses_ecn ? ecn_capable : 0;
    transmit(flow.src, packet);
    tree_.set_if_sooner(leaf_of(slot), flow.syn_timeout_ns);
}

// Everything that is out is taken for lost; slow start from one packet.
void Simulation::on_retransmit_timeout(uint32_t slot) {
    Flow &flow = flows_[slot];
    Sender &sender = flow.sender;
    if (sender.packets_out() == 0)
        return;
    const bool is_first = enter_loss(sender);
    if (config_.plb.rounds > 0)
        relabel_after_timeout(flow, is_first);
    sender.backoff++;
    sender.rto_ns = std::min(2 * sender.rto_ns, longest_rto_ns);
    // As tcp_retransmit_timer: at once, whatever the pacing.
    if (!is_small_queue_full(sender, 1, 1))
        send_segments(slot, sender.snd_una, 1, true);
    set_timer(slot, Timer::retransmit, sender.rto_ns);
}

// Tail loss probe (RFC 8985, section 7): something new, else the last segment again.
void Simulation::on_probe_timeout(uint32_t slot) {
    Flow &flow = flows_[slot];
    Sender &sender = flow.sender;
    if (sender.packets_out() == 0)
        return;
    if (!sender.is_tlp_out) {
        sender.is_tlp_retransmission = sender.snd_nxt == sender.total;
        if (sender.is_tlp_retransmission)
            send_segments(slot, sender.snd_nxt - 1, 1, true);
        else
            write_some(slot, true);
        sender.is_tlp_out = true;
        sender.tlp_high_seq = sender.snd_nxt;
    }
    rearm_retransmit(slot);
}

void Simulation::on_reorder_timeout(uint32_t slot) {
    Sender &sender = flows_[slot].sender;
    const uint32_t in_flight = sender.packets_in_flight();
    bool lost_again = false;
    const int64_t left_ns = mark_lost(sender, lost_again);
    if (left_ns > 0)
        set_timer(slot, Timer::reorder, left_ns + least_timeout_ns);
    if (in_flight != sender.packets_in_flight()) {
        if (sender.state != CaState::recovery) {
            enter_recovery(sender, false);
            if (sender.ca->cong_control == nullptr)
                reduce_cwnd(sender, 1, 0, false);
        }
        retransmit_lost(slot);
    }
    if (sender.timer == Timer::none && sender.packets_out() > 0)
        rearm_retransmit(slot);
}

} // namespace dcgym::twin::packets
