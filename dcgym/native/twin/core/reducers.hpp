// SPDX-License-Identifier: Apache-2.0
// The five scalars of a reservoir (dcgym.monitors.balancer.reducers is the reference).
#pragma once

#include <cstdint>

#include "reservoir.h"

namespace dcgym::twin {

constexpr int n_reducers = 5;

// Values in microseconds; all 0 for an empty reservoir.
struct Reduced {
    double mean = 0;
    double p90 = 0;
    double std = 0;
    double decayed_mean = 0; // of value * 0.9 ^ age in seconds
    double decayed_p90 = 0;
};

// 0.9 ^ age in seconds.
double decay(int64_t age_ms);

// A guess of the percentiles, such as those of a moment ago, saves time and changes nothing.
Reduced reduce(const dcgym_reservoir &reservoir, int64_t now_ms, const Reduced &guess = {});

// A reservoir that remembers its last reduction, for readers that come more often than samples.
// Decayed values are kept as of the newest sample and aged from there: what is read depends on the
// samples and the time alone, not on earlier readings.
class CachedReservoir {
  public:
    void add(uint64_t random, int64_t now_ns, int64_t value_ns) {
        dcgym_reservoir_add(&samples, static_cast<uint32_t>(random >> 32),
                            static_cast<uint64_t>(now_ns), static_cast<uint64_t>(value_ns));
        newest_ms_ = now_ns / 1'000'000;
        fresh_ = false;
    }
    void clear() { *this = CachedReservoir(); }
    void read(int64_t now_ns, double *out);

    dcgym_reservoir samples{};

  private:
    Reduced reduced_;
    int64_t newest_ms_ = 0;
    int64_t reduced_at_ms_ = 0;
    bool fresh_ = true;
};

} // namespace dcgym::twin
