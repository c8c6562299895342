// SPDX-License-Identifier: Apache-2.0
// Service times. One uniform number makes one sample, by the inverse of the distribution function.
#pragma once

#include <cmath>
#include <cstdint>

#include "random.hpp"

namespace dcgym::twin {

// The numbers of dcgym.tasks.balancing.DISTRIBUTIONS.
enum class Kind : uint8_t { constant, exponential, uniform, lognormal, pareto };

class Distribution {
  public:
    // The meaning of shape is that of dcgym.tasks.balancing.Distribution.
    Distribution(Kind kind, double mean_ns, double shape) : kind_(kind), mean_ns_(mean_ns) {
        if (kind == Kind::lognormal) {
            const double variance = portable_log(1 + shape * shape);
            location_ = portable_log(mean_ns) - variance / 2;
            scale_ = std::sqrt(variance);
        } else if (kind == Kind::pareto) {
            location_ = portable_log(mean_ns * (shape - 1) / shape);
            scale_ = 1 / shape;
        } else {
            scale_ = shape;
        }
    }

    // A duration of at least 1 ns and at most 2^53 ns.
    int64_t sample(Splitmix &random) const {
        const double value = draw(random.uniform());
        return value < 1 ? 1 : static_cast<int64_t>(value < 0x1p53 ? value + 0.5 : 0x1p53);
    }

  private:
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
        default:
            return mean_ns_;
        }
    }

    Kind kind_;
    double mean_ns_;
    double location_ = 0;
    double scale_ = 0;
};

} // namespace dcgym::twin
