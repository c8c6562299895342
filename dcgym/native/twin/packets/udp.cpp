// SPDX-License-Identifier: Apache-2.0
// Constant-rate UDP, as generator/flows/udp_flow.cpp sends it: what is due, every millisecond.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr int64_t bits_ns = 8'000'000'000;
constexpr int64_t step_ns = 1'000'000;
constexpr int64_t straggler_ns = 100'000'000;
constexpr uint64_t segments_per_send = 40, bytes_per_send = 65'535 - 28;
constexpr uint64_t most_sends_per_s = 50'000;

} // namespace

uint64_t Simulation::udp_sends_per_s(const Datagrams &flow) const {
    return std::min<uint64_t>(flow.rate_bps / 8 / datagram_bytes() + 1, 1'000'000'000 / step_ns);
}

void Simulation::udp_begin(uint32_t slot) {
    Flow &flow = flows_[slot];
    flow.stage = Flow::Stage::sending;
    flow.datagrams.rate_bps = static_cast<uint64_t>(plan_[flow.id].rate_bps);
    flow.datagrams.origin_ns = flow.planned_ns;
    udp_sends_per_s_ += udp_sends_per_s(flow.datagrams);
    flow.datagrams.tick_ns = flow.start_ns;
}

// With many flows each sends less often and more at a time; they take turns.
int64_t Simulation::udp_next_ns(const Flow &flow, uint64_t ahead_bytes) const {
    const Datagrams &own = flow.datagrams;
    const auto wait = static_cast<__int128>(ahead_bytes) * bits_ns / own.rate_bps;
    const int64_t due_ns = std::max(own.origin_ns + static_cast<int64_t>(wait) + 1, now_ns_);
    const auto turns = static_cast<int64_t>(
        std::max<uint64_t>((udp_sends_per_s_ + most_sends_per_s - 1) / most_sends_per_s, 1));
    const int64_t period = step_ns * turns, phase = step_ns * (flow.id % turns);
    return clock_.next_step_ns(due_ns, period, phase);
}

void Simulation::udp_tick(uint32_t slot) {
    Flow &flow = flows_[slot];
    Datagrams &own = flow.datagrams;
    own.tick_ns = 0;
    if (own.sent_all_ns < 0) {
        udp_send_due(flow, slot);
        const bool is_over =
            now_ns_ >= flow.deadline_ns ||
            (flow.size_bytes >= 0 && own.scheduled_bytes >= static_cast<uint64_t>(flow.size_bytes));
        if (is_over)
            own.sent_all_ns = now_ns_;
    }
    if (own.sent_all_ns >= 0) {
        const int64_t latest_ns = std::max(own.last_arrival_ns, own.sent_all_ns);
        if (own.received_bytes >= own.sent_bytes || now_ns_ - latest_ns >= straggler_ns) {
            flow.end_ns = latest_ns;
            return end(slot, Outcome::finished);
        }
        own.tick_ns = now_ns_ + step_ns;
    } else {
        const uint64_t ahead = own.scheduled_bytes - own.base_bytes + datagram_bytes();
        own.tick_ns =
            std::min(udp_next_ns(flow, ahead) + lateness_.draw(timer_random_), flow.deadline_ns);
    }
    tree_.set_if_sooner(leaf_of(slot), own.tick_ns);
}

void Simulation::udp_send_due(Flow &flow, uint32_t slot) {
    Datagrams &own = flow.datagrams;
    const uint64_t full = datagram_bytes();
    const uint64_t most = std::min(segments_per_send, bytes_per_send / full) * full;
    const auto elapsed = static_cast<__int128>(std::min(now_ns_, flow.deadline_ns) - own.origin_ns);
    uint64_t due = own.base_bytes;
    if (elapsed > 0)
        due += static_cast<uint64_t>(elapsed * own.rate_bps / bits_ns);
    const bool is_sized = flow.size_bytes >= 0;
    const auto size = static_cast<uint64_t>(flow.size_bytes);
    due = is_sized ? std::min(due, size) : due;
    while (own.scheduled_bytes < due) {
        uint64_t bytes = due - own.scheduled_bytes;
        if (!(is_sized && due == size))
            bytes -= bytes % full;
        bytes = std::min(bytes, most);
        if (bytes == 0)
            return;
        own.scheduled_bytes += bytes;
        own.sent_bytes += bytes;
        hosts_[flow.src].tx_bytes += bytes;
        Packet packet{};
        packet.flow = slot;
        packet.count = static_cast<uint8_t>((bytes + full - 1) / full);
        packet.b = static_cast<uint32_t>(bytes);
        packet.bytes = packet.b + packet.count * udp_header_bytes;
        packet.kind = Kind::datagram;
        transmit(flow.src, packet);
    }
}

void Simulation::udp_receive(uint32_t slot, const Packet &packet) {
    Flow &flow = flows_[slot];
    flow.datagrams.received_bytes += packet.b;
    flow.datagrams.last_arrival_ns = now_ns_;
    hosts_[flow.dst].rx_bytes += packet.b;
}

} // namespace dcgym::twin::packets
