// SPDX-License-Identifier: Apache-2.0
// The plan: which flow begins when, and what is recorded of it.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t udp_transport = 1;
// Of the traffic generator, which opens one socket after another: how late it wakes, what it takes
// from the start of a flow to that of the next that was planned for the same moment, where the
// first finds it and the path idle, and from the start to the SYN. As measured in the emulation on
// two idle cores, in us, over four runs: the first flow of a moment begins 34 to 40 after its time
// in the median and 49 to 58 at p90, the second 231 to 361 after the first, and each further one 39
// to 49 at p10, 50 to 62 in the median and 61 to 99 at p90 after the one before.
constexpr int64_t least_wake_ns = 27'000, least_open_ns = 40'000, least_first_ns = 230'000;
constexpr double beyond_wake_ns = 13'000, beyond_open_ns = 20'000, beyond_first_ns = 70'000;
constexpr int64_t connect_ns = 30'000;
// It opens so many before it looks at those that have connected (kStartsAtOnce).
constexpr size_t opened_at_once = 16;
// As the traffic generator chooses them (generator/core/hosts.cpp).
constexpr uint64_t first_source_port = 16384, source_ports = 44'000, repetition_stride = 7919;

uint32_t address_word(uint32_t host) {
    return __builtin_bswap32(0x0a000000U + host + 1);
}

uint32_t ports_word(uint32_t source, uint32_t destination) {
    return __builtin_bswap32(source << 16 | destination);
}

} // namespace

void Simulation::schedule_start(uint32_t id, uint64_t repetition, int64_t at_ns) {
    waiting_.push_back({at_ns, waiting_order_++, id, repetition});
    std::push_heap(waiting_.begin(), waiting_.end());
    tree_.set_if_sooner(starts_leaf(), std::max(at_ns, now_ns_));
}

void Simulation::start_due() {
    begun_.clear();
    while (next_start_ < by_start_.size()) {
        const uint32_t id = by_start_[next_start_];
        const int64_t planned_ns = start_ns_ + plan_[id].start_ns;
        if (planned_ns > now_ns_)
            break;
        next_start_++;
        launch(id, 0, planned_ns);
    }
    while (!waiting_.empty() && waiting_.front().at_ns <= now_ns_) {
        const Waiting due = waiting_.front();
        std::pop_heap(waiting_.begin(), waiting_.end());
        waiting_.pop_back();
        launch(due.id, due.repetition, due.at_ns);
    }
    for (size_t first = 0; first < begun_.size(); first += opened_at_once) {
        const size_t after = std::min(first + opened_at_once, begun_.size());
        int64_t free_ns = flows_[begun_[after - 1]].start_ns;
        for (size_t i = first; i < after; i++)
            flows_[begun_[i]].served_ns = free_ns += opening_ns();
    }
    int64_t next_ns = waiting_.empty() ? never : waiting_.front().at_ns;
    if (next_start_ < by_start_.size())
        next_ns = std::min(next_ns, start_ns_ + plan_[by_start_[next_start_]].start_ns);
    tree_.set(starts_leaf(), next_ns);
}

uint32_t Simulation::take_slot() {
    if (free_slots_.empty()) {
        const uint32_t slot = flows_.add();
        if (leaf_of(slot) >= tree_.leaves())
            tree_.grow(2 * tree_.leaves());
        return slot;
    }
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
}

void Simulation::give_back(uint32_t slot) {
    Flow &flow = flows_[slot];
    if (flow.in_network != 0)
        return;
    flow.stage = Flow::Stage::idle;
    free_slots_.push_back(slot);
}

// When the generator begins a flow that is due; never in the past, which a flow of datagrams may be
// planned for that waits for the end of another.
int64_t Simulation::open_ns(int64_t planned_ns) {
    if (planned_ns != burst_ns_) {
        burst_ns_ = planned_ns;
        burst_flows_ = 0;
        opened_ns_ = now_ns_ + least_wake_ns + exponential_ns(start_random_, beyond_wake_ns);
    } else {
        opened_ns_ = std::max(opened_ns_, now_ns_);
        opened_ns_ += ++burst_flows_ == 1
                          ? least_first_ns + exponential_ns(start_random_, beyond_first_ns)
                          : opening_ns();
    }
    return opened_ns_;
}

int64_t Simulation::opening_ns() {
    return least_open_ns + exponential_ns(start_random_, beyond_open_ns);
}

void Simulation::launch(uint32_t id, uint64_t repetition, int64_t planned_ns) {
    const PlannedFlow &plan = plan_[id];
    const uint32_t slot = take_slot();
    Flow &flow = flows_[slot];
    // The memory of the last flow here is used again.
    auto window = std::move(flow.sender.window);
    auto retransmissions = std::move(flow.sender.retransmissions);
    auto blocks = std::move(flow.receiver.blocks);
    flow = Flow{};
    flow.sender.window = std::move(window);
    flow.sender.retransmissions = std::move(retransmissions);
    flow.sender.retransmissions.clear();
    flow.receiver.blocks = std::move(blocks);
    flow.receiver.blocks.clear();

    flow.id = id;
    flow.repetition = repetition;
    flow.src = plan.src;
    flow.dst = plan.dst;
    flow.is_udp = plan.transport == udp_transport;
    flow.planned_ns = planned_ns;
    flow.start_ns = open_ns(planned_ns);
    flow.size_bytes = plan.size_bytes;
    flow.deadline_ns = plan.duration_ns < 0 ? never : planned_ns + plan.duration_ns;
    const auto source = static_cast<uint32_t>(first_source_port +
                                              (id + repetition * repetition_stride) % source_ports);
    const uint32_t protocol = flow.is_udp ? 17 : 6;
    flow.keys[0] = {address_word(flow.src), address_word(flow.dst), ports_word(source, plan.port),
                    protocol};
    flow.keys[1] = {address_word(flow.dst), address_word(flow.src), ports_word(plan.port, source),
                    protocol};
    begun_.push_back(slot);
    flow.active_place = static_cast<uint32_t>(active_.size());
    active_.push_back(slot);
    if (flow.is_udp)
        udp_begin(slot);
    else
        begin_tcp(flow, plan);
    arm(slot);
}

void Simulation::begin_tcp(Flow &flow, const PlannedFlow &plan) {
    flow.stage = Flow::Stage::connecting;
    flow.syn_timeout_ns = flow.start_ns + connect_ns;
    Sender &sender = flow.sender;
    const Control &control = congestion_control_[plan.src];
    sender.ca = control.ops;
    sender.random = Splitmix(start_random_.next());
    sender.clock = clock_;
    sender.uses_ecn = control.needs_ecn;
    sender.base_rtt_us = config_.base_rtt_us;
    sender.packet_ns = config_.packet_ns;
    const uint32_t frame_bytes = config_.frame_bytes, mss_bytes = frame_bytes - tcp_header_bytes;
    sender.mss_bytes = mss_bytes;
    sender.window_end = first_window(mss_bytes);
    flow.receiver.window = ReceiveWindow(mss_bytes);
    // 64 KB is the most that a packet holds.
    sender.skb_segments = sender.head_segments = std::min(
        packet_for(config_.ports[n_switch_ports() + plan.src].rate_bps, frame_bytes) / frame_bytes,
        65536 / mss_bytes);
    sender.tso_segments = std::max(sender.skb_segments, least_tso_segments);
    if (plan.size_bytes >= 0)
        sender.total = static_cast<uint32_t>((plan.size_bytes + mss_bytes - 1) / mss_bytes);
    if (plan.rate_bps >= 0) {
        sender.max_pacing_rate = std::max<uint64_t>(static_cast<uint64_t>(plan.rate_bps) / 8, 1);
        sender.is_paced = true;
    }
    if (sender.window.empty())
        sender.window.resize(64);
}

void Simulation::end(uint32_t slot, Outcome outcome) {
    Flow &flow = flows_[slot];
    if (flow.stage == Flow::Stage::ended)
        return;
    flow.stage = Flow::Stage::ended;
    if (flow.end_ns == 0)
        flow.end_ns = outcome == Outcome::finished ? std::max(now_ns_, flow.served_ns) : now_ns_;
    const Sender &sender = flow.sender;
    records_.push_back({records_.size() + 1, flow.id, flow.repetition, flow.src, flow.dst,
                        flow.is_udp ? 1U : 0U, static_cast<uint64_t>(outcome),
                        static_cast<uint64_t>(flow.planned_ns),
                        static_cast<uint64_t>(std::min(flow.start_ns, flow.end_ns)),
                        static_cast<uint64_t>(flow.end_ns),
                        flow.is_udp ? flow.datagrams.received_bytes : flow.read_bytes,
                        uint64_t{sender.srtt_us >> 3} * 1000, uint64_t{sender.min_rtt_us} * 1000,
                        sender.segments_sent_again, flow.out_of_order, sender.reorderings,
                        sender.spurious_retransmits});
    const uint32_t place = flow.active_place;
    active_[place] = active_.back();
    flows_[active_[place]].active_place = place;
    active_.pop_back();
    tree_.set(leaf_of(slot), never);
    if (flow.is_udp)
        udp_sends_per_s_ -= udp_sends_per_s(flow.datagrams);
    if (outcome != Outcome::cut)
        go_on(flow);
    give_back(slot);
}

void Simulation::go_on(const Flow &flow) {
    const PlannedFlow &plan = plan_[flow.id];
    const uint64_t done = flow.repetition + 1;
    if (plan.repetitions == 0 || done < static_cast<uint64_t>(plan.repetitions))
        return schedule_start(flow.id, done, flow.end_ns + plan.gap_ns);
    exhausted_++;
    for (const uint32_t next : successors_[flow.id])
        schedule_start(next, 0, flow.end_ns + plan_[next].start_ns);
}

void Simulation::stop_traffic() {
    next_start_ = by_start_.size();
    waiting_.clear();
    tree_.set(starts_leaf(), never);
    while (!active_.empty())
        end(active_.back(), Outcome::cut);
}

void Simulation::send_at(uint32_t src, uint32_t dst, uint32_t payload_bytes,
                         std::vector<int64_t> at_ns) {
    script_slot_ = take_slot();
    Flow &flow = flows_[script_slot_];
    flow = Flow{};
    flow.is_udp = true;
    flow.stage = Flow::Stage::sending;
    flow.src = src;
    flow.dst = dst;
    flow.keys[0] = {address_word(src), address_word(dst), ports_word(first_source_port, 9), 17};
    script_bytes_ = payload_bytes;
    script_ns_ = std::move(at_ns);
    next_scripted_ = 0;
    if (!script_ns_.empty())
        tree_.set(script_leaf(), script_ns_[0]);
}

void Simulation::send_scripted() {
    while (next_scripted_ < script_ns_.size() && script_ns_[next_scripted_] <= now_ns_) {
        next_scripted_++;
        Packet packet{};
        packet.flow = script_slot_;
        packet.count = 1;
        packet.b = script_bytes_;
        packet.bytes = script_bytes_ + udp_header_bytes;
        packet.kind = Kind::datagram;
        flows_[script_slot_].datagrams.sent_bytes += script_bytes_;
        transmit(flows_[script_slot_].src, packet);
    }
    tree_.set(script_leaf(),
              next_scripted_ < script_ns_.size() ? script_ns_[next_scripted_] : never);
}

} // namespace dcgym::twin::packets
