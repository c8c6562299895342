// SPDX-License-Identifier: Apache-2.0
// What an agent sees and sets of flows that run dcgym_agent.
#pragma once

#include "control.hpp"
#include "dcgym_agent.h"

namespace dcgym::twin::packets {

bool runs_agent(const Sender &sender);
// The flow's counters, as the kernel's program writes them; addresses and generation are 0.
dcgym_agent_flow show_flow(const Sender &sender);
// From the next acknowledgement on, for as long as the lease holds.
void command_flow(Sender &sender, const dcgym_agent_command &command);
void renew_lease(Sender &sender, uint64_t lease_us);

} // namespace dcgym::twin::packets
