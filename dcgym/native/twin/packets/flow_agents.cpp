// SPDX-License-Identifier: Apache-2.0
// Flows as an agent of dcgym_agent sees and steers them.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

bool is_steered(const Flow &flow, uint32_t count) {
    return flow.id < count && !flow.is_udp && flow.stage == Flow::Stage::sending &&
           runs_agent(flow.sender);
}

uint32_t generation_of(const Flow &flow) {
    return static_cast<uint32_t>(flow.repetition) + 1;
}

} // namespace

void Simulation::read_flows(dcgym_agent_flow *out, uint32_t count) const {
    std::fill_n(out, count, dcgym_agent_flow{});
    for (const uint32_t slot : active_) {
        const Flow &flow = flows_[slot];
        if (!is_steered(flow, count))
            continue;
        out[flow.id] = show_flow(flow.sender);
        out[flow.id].generation = generation_of(flow);
    }
}

void Simulation::command_flows(const dcgym_agent_command *commands, uint32_t count,
                               uint64_t lease_us) {
    for (const uint32_t slot : active_) {
        Flow &flow = flows_[slot];
        if (!is_steered(flow, count))
            continue;
        renew_lease(flow.sender, lease_us);
        if (commands[flow.id].generation == generation_of(flow))
            command_flow(flow.sender, commands[flow.id]);
    }
}

} // namespace dcgym::twin::packets
