// SPDX-License-Identifier: Apache-2.0
// Durations. One uniform number makes one sample, by the inverse of the distribution function.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "quick_log.hpp"
#include "random.hpp"

namespace dcgym::twin {

constexpr double ns_per_s = 1e9;

enum class Kind : uint8_t {
#define DCGYM_ROW(name) name,
#include "tables/distributions.h"
};

class Distribution {
  public:
    using Points = std::vector<std::pair<double, double>>; // amount, probability of at most that

    Distribution() = default;
    // The meaning of shape and points is that of dcgym.traffic.sizes.Distribution.
    Distribution(Kind kind, double mean_ns, double shape, Points points = {});

    // A duration of at least 1 ns and at most 2^53 ns.
    int64_t sample(Splitmix &random) const { return sample_at(random.uniform()); }
    // The same of a uniform number in (0, 1).
    int64_t sample_at(double u) const {
        if (kind_ == Kind::exponential)
            return whole_of_log(u, [this](double log) { return whole(-mean_ns_ * log); });
        return whole(draw(u));
    }
    // The amount as it is, neither bounded nor rounded.
    double draw(double u) const {
        switch (kind_) {
        case Kind::exponential:
            return -mean_ns_ * portable_log(u);
        case Kind::uniform:
            return mean_ns_ * (1 + scale_ * (2 * u - 1));
        case Kind::lognormal:
            return portable_exp(location_ + scale_ * normal_quantile(u));
        case Kind::pareto:
            return portable_exp(location_ - scale_ * portable_log(u));
        case Kind::empirical:
            return interpolated(u);
        case Kind::erlang:
        case Kind::hyperexponential:
            return surviving(u);
        default:
            return mean_ns_;
        }
    }

  private:
    static int64_t whole(double value) {
        return value < 1 ? 1 : static_cast<int64_t>(value < 0x1p53 ? value + 0.5 : 0x1p53);
    }
    double interpolated(double u) const;
    double surviving(double u) const;
    std::pair<double, double> survival_and_density(double x) const;

    Kind kind_ = Kind::exponential;
    double mean_ns_ = 1;
    double location_ = 0; // hyperexponential: share of the faster phase
    double scale_ = 0;    // erlang: number of phases
    Points points_;
};

} // namespace dcgym::twin
