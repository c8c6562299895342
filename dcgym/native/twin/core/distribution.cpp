// SPDX-License-Identifier: Apache-2.0
#include "distribution.hpp"

#include <algorithm>
#include <cmath>

namespace dcgym::twin {
namespace {

constexpr int most_iterations = 100;
constexpr double precision = 1e-14;

} // namespace

Distribution::Distribution(Kind kind, double mean_ns, double shape, Points points)
    : kind_(kind), mean_ns_(mean_ns), points_(std::move(points)) {
    if (kind == Kind::lognormal) {
        const double variance = portable_log(1 + shape * shape);
        location_ = portable_log(mean_ns) - variance / 2;
        scale_ = std::sqrt(variance);
    } else if (kind == Kind::pareto) {
        location_ = portable_log(mean_ns * (shape - 1) / shape);
        scale_ = 1 / shape;
    } else if (kind == Kind::hyperexponential) {
        // Balanced means: both phases bring half of the time.
        const double square = shape * shape;
        location_ = (1 + std::sqrt((square - 1) / (square + 1))) / 2;
    } else {
        scale_ = shape;
    }
}

double Distribution::interpolated(double u) const {
    const auto upper =
        std::lower_bound(points_.begin(), points_.end(), u,
                         [](const auto &point, double level) { return point.second < level; });
    if (upper == points_.begin())
        return upper->first;
    const auto lower = upper - 1;
    const double share = (u - lower->second) / (upper->second - lower->second);
    return lower->first + share * (upper->first - lower->first);
}

// In units of the phases' own mean with Erlang, of the mean else.
std::pair<double, double> Distribution::survival_and_density(double x) const {
    if (kind_ == Kind::hyperexponential) {
        const double fast = 2 * location_, slow = 2 * (1 - location_);
        const double quick = location_ * portable_exp(-fast * x);
        const double lasting = (1 - location_) * portable_exp(-slow * x);
        return {quick + lasting, fast * quick + slow * lasting};
    }
    double term = portable_exp(-x), sum = term;
    for (int i = 1; i < static_cast<int>(scale_); i++) {
        term *= x / i;
        sum += term;
    }
    return {sum, term};
}

// Newton's steps on the logarithm of the survival function, which is concave (Erlang) or convex
// (hyperexponential): from this start they close in from one side, whatever u is.
double Distribution::surviving(double u) const {
    const double wanted = portable_log(u); // the greatest amounts belong to the least numbers
    double x = kind_ == Kind::erlang ? scale_ : 0;
    for (int i = 0; i < most_iterations; i++) {
        const auto [survival, density] = survival_and_density(x);
        const double step = (portable_log(survival) - wanted) * survival / density;
        x = std::max(0.0, x + step);
        if (std::abs(step) <= precision * x)
            break;
    }
    return kind_ == Kind::erlang ? x * mean_ns_ / scale_ : x * mean_ns_;
}

} // namespace dcgym::twin
