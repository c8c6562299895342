// SPDX-License-Identifier: Apache-2.0
// What the twins would see arrive with a seed, and nothing more: nobody serves it.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/flow_source.hpp"
#include "core/request_source.hpp"
#include "interrupt.hpp"

namespace dcgym::twin {

// A flow or a request as its client knows it.
struct Arrival {
    int64_t arrival_ns;
    uint64_t flow; // number in order of arrival
    std::array<int64_t, max_stages> demand_ns;
    uint16_t application;
};

struct FlowRateChange {
    int64_t at_ns;
    std::vector<uint32_t> applications; // none: a change of something else
    double factor;
};

std::vector<Arrival> draw_flows(const FlowWorkload &workload,
                                const std::vector<FlowRateChange> &changes, uint64_t seed,
                                int64_t until_ns, Interrupt &call);

// Service times are means by application. Rates a second hold from a time on; the first from 0 on.
std::vector<Arrival> draw_requests(const RequestWorkload &workload,
                                   const std::vector<double> &service_ns,
                                   const std::vector<std::pair<int64_t, double>> &rates,
                                   uint64_t seed, int64_t until_ns, Interrupt &call);

} // namespace dcgym::twin
