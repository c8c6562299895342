// SPDX-License-Identifier: Apache-2.0
// What Prequal's pool goes by, in whole numbers, from what a scenario sets.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "prequal.h"

namespace dcgym {

// What of Prequal a scenario sets.
struct PrequalConfig {
    static constexpr double removals = 1; // a request
    static constexpr double slack = 1;    // delta, of the reuse budget

    double quantile = 0.8408964152537145; // of requests in flight, above which a server is hot
    double probes = 3;                    // a request; may be a fraction
    int64_t timeout_ns = 3'000'000;

    // Small fleets have a smaller pool: of 16 answers, half would be about the same servers.
    static size_t capacity(size_t n) {
        return std::min<size_t>(DCGYM_PREQUAL_ANSWERS, std::max<size_t>(2, n / 2));
    }

    // The paper's budget of a pool of n servers; where it is not positive, which its authors'
    // fleets never see, two uses.
    double reuse(size_t n) const {
        const double m = static_cast<double>(capacity(n)) / static_cast<double>(n);
        const double net = (1 - m) * probes - removals;
        return net > 0 ? std::max(1.0, (1 + slack) / net) : 2.0;
    }

    dcgym_prequal_budget budget(size_t n) const {
        // Nobody uses an answer more often before it is removed; the field has 16 bits.
        const double uses = std::min(reuse(n), 60'000.0), whole = std::floor(uses);
        return {static_cast<uint64_t>(std::ceil((uses - whole) * 0x1p53)),
                static_cast<uint32_t>(whole), static_cast<uint32_t>(capacity(n))};
    }

    // Of the ranks beside the quantile the lower one: with the upper one the most loaded of up to
    // six servers would never be hot.
    dcgym_prequal_places places() const {
        dcgym_prequal_places found{};
        for (size_t n = 1; n <= DCGYM_PREQUAL_ANSWERS; n++)
            found.rank[n] = static_cast<uint8_t>(quantile * static_cast<double>(n - 1));
        return found;
    }
};

} // namespace dcgym
