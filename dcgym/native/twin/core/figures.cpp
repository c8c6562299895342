// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dcgym::twin {

namespace py = pybind11;

py::dict figures_of(const CompletionTimes &times) {
    constexpr double ns_per_us = 1000;
    const auto n = static_cast<double>(std::max<uint64_t>(times.count, 1));
    const double mean = static_cast<double>(times.sum_ns) / n;
    const double variance = std::max(0.0, times.squares / n - mean * mean);
    py::dict found;
    found["count"] = times.count;
    found["mean_us"] = mean / ns_per_us;
    found["std_us"] = std::sqrt(variance) / ns_per_us;
    constexpr std::pair<const char *, double> percentiles[] = {
        {"p50_us", 0.5}, {"p90_us", 0.9}, {"p95_us", 0.95}, {"p99_us", 0.99}};
    for (const auto &[name, fraction] : percentiles)
        found[name] = times.histogram.quantile(fraction, times.count) / ns_per_us;
    return found;
}

} // namespace dcgym::twin
