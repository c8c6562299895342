// SPDX-License-Identifier: Apache-2.0
// What a simulation reports of itself, in constant memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/statistics.hpp"
#include "flow.hpp"

namespace dcgym::twin::balancing {

// A finished flow.
struct Record {
    int64_t arrival_ns, served_ns, end_ns;
    uint64_t flow;
    uint16_t application, balancer, server;
    uint8_t outcome, tracked;
};

// Finished flows, and what each asked of every resource, row by row.
struct Records {
    std::vector<Record> flows;
    std::vector<int64_t> demand_ns;
};

// What a server did since averages began.
struct ServerTotals {
    int64_t queue_time_ns, busy_time_ns;
    uint64_t flows, completed;
};

struct Statistics {
    explicit Statistics(size_t applications = 0) : completion(applications) {}

    uint64_t arrivals = 0;
    std::array<uint64_t, 4> outcomes{}; // by Outcome
    int64_t count(Outcome outcome) const {
        return static_cast<int64_t>(outcomes[static_cast<size_t>(outcome)]);
    }
    uint64_t untracked = 0;
    uint64_t records_dropped = 0;
    std::vector<CompletionTimes> completion; // by application
    Fairness queue, remaining;
};

} // namespace dcgym::twin::balancing
