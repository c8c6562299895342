// SPDX-License-Identifier: Apache-2.0
// A device: workers that serve in order of arrival, and the agent that watches them.
#pragma once

#include <cstdint>

#include "config.hpp"
#include "fifo.hpp"

namespace dcgym::twin::accelerators {

// What agents read comes first: reports are most of the events, and this is one cache line.
struct alignas(64) Device {
    // Integral of the workers in use.
    int64_t busy_ns = 0;
    int64_t since_ns = 0;
    uint32_t in_service = 0;
    bool is_up = true;
    bool is_silent = false; // the agent
    bool is_busy = false;   // as the agent sees it
    Fifo<Request> waiting;
    const DeviceConfig *config = nullptr;
    double speed = 1; // times the configured one
    uint32_t epoch = 0;
    // Since the last observation.
    int64_t interval_busy_ns = 0; // busy_ns at its beginning
    double offered_ns = 0;
    uint64_t chosen = 0;
    uint64_t dropped = 0;

    uint32_t queue() const { return in_service + static_cast<uint32_t>(waiting.size()); }
    int64_t busy_until(int64_t now_ns) const { return busy_ns + in_service * (now_ns - since_ns); }
    void integrate(int64_t now_ns) {
        busy_ns = busy_until(now_ns);
        since_ns = now_ns;
    }
    int64_t service_ns(const Request &request) const {
        return whole_service_ns(request.demand * config->service_ns[request.application] / speed);
    }
};

} // namespace dcgym::twin::accelerators
