// SPDX-License-Identifier: Apache-2.0
// Distributions and their functions by themselves, for tests.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "distribution.hpp"
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

} // namespace

void bind_core(py::module_ &module) {
    using namespace py::literals;
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
