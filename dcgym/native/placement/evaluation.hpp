// SPDX-License-Identifier: Apache-2.0
// What a whole assignment leads to, failures included, and the two schemes without detours.
#pragma once

#include <cstdint>
#include <vector>

#include "demand.hpp"
#include "routing.hpp"

namespace dcgym::placement {

struct Outcome {
    Loads loads;
    double total_bps = 0;                           // of sources that are there
    double switch_bps = 0;                          // handled by switches
    double mux_bps = 0;                             // handled by software muxes
    double lost_bps = 0;                            // of sources that are gone
    double dark_bps = 0;                            // no DIP is left, or no mux
    double direct_hop_bps = 0, direct_core_bps = 0; // of direct paths in the intact tree
    std::vector<double> by_switch_bps;
};

// Muxes take the VIPs of switches that are down (their routes are withdrawn), each the same part.
// where: the switch of each VIP, or on_muxes. mux_share: what part of the muxes is in each rack.
// Without routes, nothing is said of links. Throws Interrupted where the call is to end.
Outcome evaluate(const Fabric &fabric, const Vips &vips, const std::vector<int32_t> &where,
                 const std::vector<double> &mux_share, const Health &health, bool is_routed,
                 Interrupt &call);

// Loads where every packet takes a shortest path from its source to its DIP: one that is chosen
// alike among all DIPs, or among the closest ones (Rubik's Direct and Closest).
Loads ideal(const Fabric &fabric, const Vips &vips, bool is_closest, Interrupt &call);

} // namespace dcgym::placement
