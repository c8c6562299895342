// SPDX-License-Identifier: Apache-2.0
// One run of one flow of the plan, while it has packets or timers in the network.
#pragma once

#include <cstdint>
#include <vector>

#include "receiver.hpp"
#include "routes.hpp"
#include "sender.hpp"

namespace dcgym::twin::packets {

// What a switch remembers of a flow.
struct Pin {
    uint32_t node = 0;
    uint32_t port = 0;
    uint32_t routes_version = 0; // at which the port was last found a member of its group
    int64_t last_ns = 0;         // of the last packet
};

// What the switches on the ways of a direction remember of it, in the order of their first packet.
// Those that have one port to choose from remember nothing, as in the BPF switch.
struct Path {
    uint32_t tables_version = 0;
    std::vector<Pin> pins;

    Pin *find(uint32_t node) {
        for (Pin &pin : pins)
            if (pin.node == node)
                return &pin;
        return nullptr;
    }
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
    int64_t served_ns = 0; // when the generator, which opens others, has time for it
    int64_t size_bytes = -1;
    uint64_t read_bytes = 0;
    uint64_t out_of_order = 0;
    uint32_t in_network = 0;                // packets; the place is free when they are gone
    int64_t syn_ns = 0, syn_timeout_ns = 0; // when the next one is due; 0: none
    int64_t syn_ack_ns = 0;                 // when it was answered
    uint32_t syns = 0;
    uint32_t active_place = 0; // in the list of those that run
    FlowKey keys[2];           // forward and back
    Path paths[2];
    Sender sender;
    Receiver receiver;
    Datagrams datagrams;
};

} // namespace dcgym::twin::packets
