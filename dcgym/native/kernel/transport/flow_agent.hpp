// SPDX-License-Identifier: Apache-2.0
// The agent's end of dcgym_agent: reads the flows and writes commands through the mapped arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/mapping.hpp"
#include "dcgym_agent.h"

namespace dcgym {

// The maps of dcgym_agent.bpf.c; descriptors stay the caller's.
struct AgentMaps {
    int flows, commands, controls, free_slots;
};

// One agent at a time writes. Reading waits for no writer for longer than a second.
class FlowAgent {
  public:
    explicit FlowAgent(AgentMaps maps);

    // Gives every slot back, for the time when no flow is open.
    void clear();
    // Whole copies of all slots that were ever used (struct dcgym_agent_flow); throws BackendError
    // where a writer seems to have died inside a write.
    std::vector<dcgym_agent_flow> read() const;
    // What the flow of each slot is to do; each has a place in all the arrays. Returns how many
    // slots there are not.
    size_t write(const std::vector<uint32_t> &slots,
                 const std::vector<dcgym_agent_command> &commands);
    // Commands hold until then, CLOCK_MONOTONIC.
    void renew(uint64_t lease_us);
    dcgym_agent_control control() const;

  private:
    AgentMaps maps_;
    Mapping flows_, commands_, controls_;
};

} // namespace dcgym
