// SPDX-License-Identifier: Apache-2.0
// What a balancer keeps of a server for the rules that look at response times and reports.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/random.hpp"

namespace dcgym::twin::balancing {

// Finagle's and Tower's peak-EWMA: peaks count at once, what is below them decays in.
struct PeakEwma {
    static constexpr double tau_ns = 10e9;         // Linkerd's proxy
    static constexpr double first_guess_ns = 30e6; // likewise; until the first sample, undecayed

    double mean_ns = first_guess_ns;
    int64_t time_ns = -1; // before the first sample

    void sample(double value_ns, int64_t now_ns) {
        if (time_ns < 0 || value_ns > mean_ns) {
            mean_ns = value_ns;
        } else {
            const double weight = decay(now_ns);
            mean_ns = mean_ns * weight + value_ns * (1 - weight);
        }
        time_ns = now_ns;
    }
    double cost(uint32_t pending, int64_t now_ns) const {
        const double load_ns = time_ns < 0 ? mean_ns : mean_ns * decay(now_ns);
        return load_ns * (pending + 1.0);
    }

  private:
    double decay(int64_t now_ns) const {
        return portable_exp(-static_cast<double>(std::max<int64_t>(now_ns - time_ns, 0)) / tau_ns);
    }
};

// C3's ranking (Suresh, Canini, Schmid, Feldmann, NSDI 2015), without its rate control, which
// would have to hold back requests.
struct C3Rank {
    static constexpr double newest = 0.9; // weight of a new sample: our choice

    double response_ns = 0; // 0 before the first
    double service_ns = 0;  // time between two ends of a busy server
    double queue = 0;

    static void blend(double &mean, double value) {
        mean = mean <= 0 ? value : (1 - newest) * mean + newest * value;
    }
    void respond(double value_ns) { blend(response_ns, value_ns); }
    void report(double flows, double value_ns) {
        queue = (1 - newest) * queue + newest * flows;
        blend(service_ns, value_ns);
    }
    double score(uint32_t outstanding, size_t balancers) const {
        const double q = 1 + outstanding * static_cast<double>(balancers) + queue;
        return response_ns - service_ns + q * q * q * service_ns;
    }
};

} // namespace dcgym::twin::balancing
