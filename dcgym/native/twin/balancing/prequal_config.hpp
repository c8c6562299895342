// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace dcgym::twin::balancing {

// What of Prequal a scenario sets.
struct PrequalConfig {
    double quantile = 0.8408964152537145; // of requests in flight, above which a server is hot
    double probes = 3;                    // a request; may be a fraction
    int64_t timeout_ns = 3'000'000;
};

} // namespace dcgym::twin::balancing
