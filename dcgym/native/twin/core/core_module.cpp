// SPDX-License-Identifier: Apache-2.0
// Completion times in constant memory; distributions and their functions by themselves, for tests.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "distribution.hpp"
#include "figures.hpp"
#include "quick_log.hpp"
#include "random.hpp"

namespace py = pybind11;
using namespace dcgym::twin;

namespace {

py::array_t<int64_t> sample(uint8_t kind, double mean_ns, double shape, uint64_t seed, size_t n,
                            const Distribution::Points &points) {
    const Distribution distribution(static_cast<Kind>(kind), mean_ns, shape, points);
    Splitmix random(seed);
    py::array_t<int64_t> out(static_cast<py::ssize_t>(n));
    for (size_t i = 0; i < n; i++)
        out.mutable_at(i) = distribution.sample(random);
    return out;
}

void add_times(CompletionTimes &times, const py::array_t<int64_t, py::array::c_style> &values_ns) {
    for (py::ssize_t i = 0; i < values_ns.size(); i++)
        times.add(std::max<int64_t>(values_ns.data()[i], 0));
}

} // namespace

namespace dcgym::twin {

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

void bind_core(py::module_ &module) {
    using namespace py::literals;
    py::class_<CompletionTimes>(module, "CompletionTimes")
        .def(py::init<>())
        .def("add", &add_times, "values_ns"_a)
        .def("figures", &figures_of);
    module.def("sample", &sample, "kind"_a, "mean_ns"_a, "shape"_a, "seed"_a, "n"_a,
               "points"_a = Distribution::Points());
    module.def("portable_log", &portable_log, "x"_a);
    module.def(
        "quick_log", [](double x) { return quick_log.estimate(x); }, "x"_a);
    module.def("quick_log_margin", &QuickLog::margin, "estimate"_a);
    module.def("portable_exp", &portable_exp, "x"_a);
    module.def("normal_quantile", &normal_quantile, "p"_a);
    module.def("normal_cdf", &normal_cdf, "z"_a);
}
