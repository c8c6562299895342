// SPDX-License-Identifier: Apache-2.0
// One run of one flow of the plan, while it has packets or timers in the network.
#pragma once

#include <array>
#include <cstdint>

#include "receiver.hpp"
#include "routes.hpp"
#include "sender.hpp"

namespace dcgym::twin::packets {

constexpr uint32_t longest_path = 8;

// The ports that a direction has taken, found at the first packet and kept while the tables stay.
struct Path {
    uint32_t routes_version = 0, weights_version = 0;
    uint32_t length = 0;
    std::array<uint32_t, longest_path> ports{};
    std::array<int64_t, longest_path> last_ns{}; // of the last packet, where flowlets may move
};

struct Datagrams {
    int64_t origin_ns = 0; // of the rate: moves on when the sender was held up
    uint64_t rate_bps = 0;
    uint64_t scheduled_bytes = 0, base_bytes = 0;
    uint64_t sent_bytes = 0, received_bytes = 0;
    int64_t last_arrival_ns = 0, sent_all_ns = -1, tick_ns = 0; // 0: no tick is due
};

struct Flow {
    enum class Stage : uint8_t { idle, connecting, sending, ended };

    Stage stage = Stage::idle;
    bool is_udp = false;
    uint32_t id = 0, src = 0, dst = 0;
    uint64_t repetition = 0;
    int64_t planned_ns = 0, start_ns = 0, end_ns = 0, deadline_ns = 0;
    int64_t size_bytes = -1;
    uint64_t read_bytes = 0;
    uint64_t retransmits = 0, out_of_order = 0;
    uint32_t in_network = 0;                // packets; the place is free when they are gone
    int64_t syn_ns = 0, syn_timeout_ns = 0; // when the next one is due; 0: none
    uint32_t syns = 0;
    uint32_t active_place = 0; // in the list of those that run
    FlowKey keys[2];           // forward and back
    Path paths[2];
    Sender sender;
    Receiver receiver;
    Datagrams datagrams;
};

} // namespace dcgym::twin::packets
