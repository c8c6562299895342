// SPDX-License-Identifier: Apache-2.0
// From what agents say to what is put in force: shares within bounds, and rates of hosts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dcgym::measure {

// The numbers of any actions, each held within its bounds; false where one is not finite.
inline bool keep_within(const double *asked, size_t count, const std::vector<double> &low,
                        const std::vector<double> &high, double *kept) {
    for (size_t i = 0, at = 0; i < count; i++, at = at + 1 == low.size() ? 0 : at + 1) {
        if (!std::isfinite(asked[i]))
            return false;
        kept[i] = std::min(std::max(asked[i], low[at]), high[at]);
    }
    return true;
}

// Whole bits per second of shares of rates, at least 1. Halves go to the even, as in numpy.rint.
inline void to_rates(const double *shares, size_t count, const std::vector<double> &rates_bps,
                     uint64_t *found_bps) {
    for (size_t i = 0, at = 0; i < count; i++, at = at + 1 == rates_bps.size() ? 0 : at + 1) {
        const double rate_bps = std::max(std::nearbyint(shares[i] * rates_bps[at]), 1.0);
        found_bps[i] = static_cast<uint64_t>(rate_bps);
    }
}

} // namespace dcgym::measure
