// SPDX-License-Identifier: Apache-2.0
// What pools are asked for and how it went, for both backends: flows and requests drawn ahead,
// figures of completion times, reservoirs; and functions by themselves, for tests.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "core/distribution.hpp"
#include "core/figures.hpp"
#include "core/quick_log.hpp"
#include "core/random.hpp"
#include "core/read_workload.hpp"
#include "core/reducers.hpp"
#include "draws.hpp"
#include "python_signals.hpp"

namespace py = pybind11;
using namespace dcgym::twin;

namespace {

// Draws without the interpreter's lock.
template <typename Draw> py::array array_of(const Draw &draw) {
    std::vector<Arrival> found;
    {
        const py::gil_scoped_release released;
        dcgym::Interrupt call(dcgym::ask_python);
        found = draw(call);
    }
    return py::array_t<Arrival>(static_cast<py::ssize_t>(found.size()), found.data());
}

using FlowRates = std::vector<std::tuple<int64_t, std::vector<uint32_t>, double>>;

py::array flows(const py::dict &plain, const FlowRates &rates, uint64_t seed, int64_t until_ns) {
    const FlowWorkload workload = read_flow_workload(plain);
    if (workload.arrivals.users > 0)
        throw py::value_error("arrivals: users send when they are answered");
    std::vector<FlowRateChange> changes;
    for (const auto &[at_ns, applications, factor] : rates) {
        for (const uint32_t application : applications)
            if (application >= workload.applications.size())
                throw py::value_error("rates: an application that is not there");
        changes.push_back({at_ns, applications, factor});
    }
    return array_of([&](dcgym::Interrupt &call) {
        return draw_flows(workload, changes, seed, until_ns, call);
    });
}

py::array requests(const py::dict &plain, const std::vector<double> &service_ns,
                   const std::vector<std::pair<int64_t, double>> &rates, uint64_t seed,
                   int64_t until_ns) {
    const RequestWorkload workload = read_request_workload(plain);
    if (service_ns.size() != workload.applications.size())
        throw py::value_error("service_ns: one for each application");
    if (rates.empty())
        throw py::value_error("rates: the first at least");
    return array_of([&](dcgym::Interrupt &call) {
        return draw_requests(workload, service_ns, rates, seed, until_ns, call);
    });
}

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

py::array_t<double> reduce_samples(const py::array_t<uint32_t, py::array::c_style> &samples,
                                   int64_t now_ms) {
    if (samples.size() != 2 * DCGYM_RESERVOIR_SLOTS)
        throw py::value_error("samples: 128 pairs of time and value expected");
    dcgym_reservoir reservoir;
    std::memcpy(&reservoir, samples.data(), sizeof reservoir);
    const Reduced reduced = reduce(reservoir, now_ms);
    py::array_t<double> out(n_reducers);
    std::memcpy(out.mutable_data(), &reduced, sizeof reduced);
    return out;
}

// Ages in events of the samples left after so many, newest event 0.
std::vector<uint32_t> survivors(uint64_t seed, uint32_t events) {
    dcgym_reservoir reservoir{};
    Splitmix random(seed);
    for (uint32_t i = 0; i < events; i++)
        dcgym_reservoir_add(&reservoir, static_cast<uint32_t>(random.next() >> 32), 1'000'000,
                            1000ULL * i);
    std::vector<uint32_t> ages;
    for (const dcgym_sample &sample : reservoir.samples)
        if (sample.time_ms != 0)
            ages.push_back(events - 1 - sample.value_us);
    return ages;
}

} // namespace

PYBIND11_MODULE(_workload, module) {
    using namespace py::literals;
    module.doc() = "What pools are asked for, and how it went.";
    dcgym::translate_ends();
    PYBIND11_NUMPY_DTYPE(Arrival, arrival_ns, flow, demand_ns, application);
    module.def("flows", &flows, "workload"_a, "rates"_a, "seed"_a, "until_ns"_a);
    module.def("requests", &requests, "workload"_a, "service_ns"_a, "rates"_a, "seed"_a,
               "until_ns"_a);
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
    module.def("reduce", &reduce_samples, "samples"_a, "now_ms"_a, "The five scalars.");
    module.def("reservoir_survivors", &survivors, "seed"_a, "events"_a);
}
