// SPDX-License-Identifier: Apache-2.0
// What switch ports and hosts of a network counted, before and after an interval.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "state_words.hpp"

namespace dcgym::measure {

// The network, as far as intervals are measured by it.
struct Layout {
    size_t words = 0; // of a row
    Starts ports, hosts;
    std::vector<double> port_rates_bps, queue_limits_bytes, host_rates_bps;
};

// One copy's rows at both ends of the interval.
struct Rows {
    const uint64_t *before;
    const uint64_t *after;

    // In signed words: a counter that started again has fallen, and counts as unchanged.
    double rise(size_t word) const {
        const auto difference = static_cast<int64_t>(after[word] - before[word]);
        return static_cast<double>(std::max<int64_t>(difference, 0));
    }
    double level(size_t word) const { return static_cast<double>(after[word]); }
};

} // namespace dcgym::measure
