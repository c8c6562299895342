// SPDX-License-Identifier: Apache-2.0
// Demands that are alike for a while: a stationary Gaussian process shifts where in its
// distribution a demand lies. Normal scores of demands that arrive s apart have the correlation
// share * exp(-s / time); the distribution of the demands stays as it is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "random.hpp"

namespace dcgym::twin {

struct CorrelationConfig {
    double share = 0; // 0: demands are independent
    double time_ns = 1;
};

class Correlation {
  public:
    Correlation(const CorrelationConfig &config, uint64_t seed)
        : config_(config), random_(seed), level_(normal_quantile(random_.uniform())) {}

    // Turns a uniform number into one that follows the process at this time.
    double shifted(int64_t now_ns, double u) {
        const double kept = portable_exp(-static_cast<double>(now_ns - at_ns_) / config_.time_ns);
        at_ns_ = now_ns;
        level_ = kept * level_ + std::sqrt(1 - kept * kept) * normal_quantile(random_.uniform());
        const double score =
            std::sqrt(config_.share) * level_ + std::sqrt(1 - config_.share) * normal_quantile(u);
        return std::clamp(normal_cdf(score), 0x1p-53, 1 - 0x1p-53);
    }

  private:
    CorrelationConfig config_;
    Splitmix random_;
    double level_;
    int64_t at_ns_ = 0;
};

} // namespace dcgym::twin
