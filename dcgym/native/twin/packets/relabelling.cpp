// SPDX-License-Identifier: Apache-2.0
// What the senders of PLB and FlowBender do: a flow that meets marks gets another label, and with
// it another path. The labels of acknowledgements are the receiver's and stay.
#include "simulation.hpp"

namespace dcgym::twin::packets {

// Once a round trip, as Linux' DCTCP calls PLB (tcp_dctcp.c), for whatever congestion control.
void Simulation::watch_marks(uint32_t slot) {
    Flow &flow = flows_[slot];
    Sender &sender = flow.sender;
    if (before(sender.snd_una, sender.round_end_seq))
        return;
    dcgym_plb_round(&sender.plb, &config_.plb, sender.delivered - sender.round_delivered,
                    sender.delivered_ce - sender.round_marked);
    sender.round_end_seq = sender.snd_nxt;
    sender.round_delivered = sender.delivered;
    sender.round_marked = sender.delivered_ce;
    relabel_if_due(flow);
}

void Simulation::relabel_if_due(Flow &flow) {
    if (dcgym_plb_moves(&flow.sender.plb, &config_.plb, flow.sender.packets_out() == 0,
                        static_cast<uint64_t>(now_ns_)))
        relabel(flow);
}

void Simulation::relabel_after_timeout(Flow &flow, bool is_first) {
    const auto random = static_cast<uint32_t>(random_.next() >> 32);
    if (is_first)
        dcgym_plb_suspend(&flow.sender.plb, &config_.plb, static_cast<uint64_t>(now_ns_), random);
    dcgym_plb_timeout(&flow.sender.plb);
    relabel(flow);
}

void Simulation::relabel(Flow &flow) {
    flow.keys[0].label = static_cast<uint32_t>(random_.next() >> 32);
    flow.paths[0].pins.clear();
}

} // namespace dcgym::twin::packets
