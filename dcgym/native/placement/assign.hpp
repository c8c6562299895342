// SPDX-License-Identifier: Apache-2.0
// Assignments of all VIPs at once, and the switches among which an agent chooses for one.
#pragma once

#include <cstdint>
#include <vector>

#include "interrupt.hpp"
#include "state.hpp"

namespace dcgym::placement {

// Draws that belong to a VIP and a switch, whatever was drawn before.
uint64_t draw(uint64_t seed, uint64_t vip, uint64_t number);

enum class Choice { least_mru, first_feasible, none };

// How VIPs are placed, the largest first.
struct Rule {
    Choice choice;
    bool stops;    // at the first VIP that fits nowhere; else it is left out
    double margin; // a VIP stays unless its MRU falls by more than this
    uint64_t seed;
};

// Places the VIPs of an empty state in this order. Where VIPs were before counts if anything is
// given: each stays where its margin and the capacities let it. Throws Interrupted, between two
// VIPs, where the call is to end.
void assign(State &state, const std::vector<uint32_t> &order, const std::vector<int32_t> &before,
            const Rule &rule, Interrupt &call);

// What an agent chooses among, for one VIP.
struct Candidates {
    std::vector<uint32_t> numbers; // of switches
    std::vector<uint8_t> feasible;
    std::vector<double> scan; // place in a random order of all switches, 0 to 1
};

// Takes at most this many: half of them those of least MRU, a quarter those of fewest hops, the
// others the first in a random order, each feasible. 0 takes all switches in their order.
void choose(const State &state, size_t vip, const std::vector<Offer> &offers, size_t most,
            uint64_t seed, Candidates &out);

} // namespace dcgym::placement
