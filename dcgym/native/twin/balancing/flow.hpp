// SPDX-License-Identifier: Apache-2.0
// A flow on its way, and the store of all flows in flight.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "config.hpp"
#include "rules.h"

namespace dcgym::twin::balancing {

using FlowId = uint32_t;
constexpr FlowId no_flow = 0xffffffff;
constexpr uint16_t no_server = DCGYM_NO_SERVER;
constexpr uint16_t no_frontend = 0xffff;
constexpr uint32_t no_user = 0xffffffff;

enum class Outcome : uint8_t {
#define DCGYM_ROW(symbol, ...) symbol,
#include "tables/flow_outcomes.h"
    under_way,
};

// What the flow's next event is.
enum class Phase : uint8_t {
    free,
    syn_at_balancer,
    syn_at_server,
    report_at_balancer, // SYN-ACK through the balancer, only with Charon
    data_at_balancer,
    data_at_server,
    at_server, // events are packets that the client sends meanwhile
    end_at_balancer,
    entry_timeout, // rejected, but its entry of the flow table lives on
};

// What a flow asks of each resource of a server.
using Demand = std::array<int64_t, max_resources>;

struct Flow : DrawnFlow {
    int64_t syn_ns;
    int64_t served_ns;
    int64_t end_ns;
    int64_t received_ns; // its request, by the server
    double finish;  // of the stage in service, in the resource's virtual time; below 0: waiting
    uint32_t epoch; // of the server when the flow was placed
    uint64_t reported_speed;
    uint32_t reported_flows;
    double reported_service_ns;
    uint32_t met;      // requests at the server when its own came
    uint32_t hashed;   // version of its balancer's pool whose hash leads to its server; 0: none
    FlowId next;       // in the server's queue
    uint32_t user;     // who waits for its end; no_user: nobody
    uint16_t frontend; // its front end there
    uint16_t server;
    Phase phase;
    Outcome outcome;
    uint8_t stage;
    bool tracked;   // has an entry of its balancer's flow table
    bool connected; // that entry is in the state CONN
    bool counted;   // it is among the flows that the rules see
    bool covert;    // its packets name the server themselves
    bool reported;  // its end is already in the statistics
    bool reporting; // its SYN-ACK brings the server's load to the balancer
    bool refused;   // a resource beyond the first had no room for it
};

class FlowStore {
  public:
    void clear() {
        flows_.clear();
        free_ = no_flow;
    }
    Flow &operator[](FlowId id) { return flows_[id]; }
    const Flow &operator[](FlowId id) const { return flows_[id]; }
    size_t size() const { return flows_.size(); }

    FlowId take() {
        if (free_ == no_flow) {
            flows_.emplace_back();
            return static_cast<FlowId>(flows_.size() - 1);
        }
        const FlowId id = free_;
        free_ = flows_[id].next;
        return id;
    }
    void give_back(FlowId id) {
        flows_[id].phase = Phase::free;
        flows_[id].next = free_;
        free_ = id;
    }

  private:
    std::vector<Flow> flows_;
    FlowId free_ = no_flow;
};

} // namespace dcgym::twin::balancing
