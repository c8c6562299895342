// SPDX-License-Identifier: Apache-2.0
#include "read_workload.hpp"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>

namespace dcgym::twin {
namespace {

namespace py = pybind11;

using Law = std::tuple<uint8_t, double, double, Distribution::Points>;

Distribution distribution(const Law &law) {
    const auto &[kind, mean_ns, shape, points] = law;
    if (kind > static_cast<uint8_t>(Kind::hyperexponential))
        throw py::value_error("distribution: unknown kind " + std::to_string(kind));
    return {static_cast<Kind>(kind), mean_ns, shape, points};
}

std::vector<FlowApplication> flow_applications(const py::dict &plain) {
    using Stage = std::tuple<uint8_t, Law, double, double>;
    std::vector<FlowApplication> applications;
    for (const auto &[rate, stages] :
         plain["applications"].cast<std::vector<std::pair<double, std::vector<Stage>>>>()) {
        FlowApplication application{rate, {}};
        for (const auto &[resource, law, share, time_ns] : stages)
            application.stages.push_back({resource, distribution(law), {share, time_ns}});
        if (stages.size() > max_stages)
            throw py::value_error("applications: at most " + std::to_string(max_stages) +
                                  " stages");
        applications.push_back(std::move(application));
    }
    return applications;
}

ArrivalsConfig flow_arrivals(const py::dict &plain) {
    ArrivalsConfig arrivals;
    arrivals.plain = plain["plain"].cast<bool>();
    arrivals.gaps = distribution(plain["gaps"].cast<Law>());
    arrivals.recorded = plain["recorded"].cast<std::vector<double>>();
    arrivals.applications = plain["applications"].cast<std::vector<uint16_t>>();
    arrivals.start = plain["start"].cast<double>();
    arrivals.modulation.factors = plain["factors"].cast<std::vector<double>>();
    arrivals.modulation.times_ns = plain["times_ns"].cast<std::vector<double>>();
    arrivals.modulation.markov = plain["markov"].cast<bool>();
    arrivals.modulation.phase = plain["phase"].cast<double>();
    arrivals.users = plain["users"].cast<uint32_t>();
    arrivals.think = distribution(plain["think"].cast<Law>());
    return arrivals;
}

// Numbers of a recording and a modulation index arrays without a further look.
void check_arrivals(const FlowWorkload &workload) {
    const ArrivalsConfig &arrivals = workload.arrivals;
    if (arrivals.modulation.factors.size() != arrivals.modulation.times_ns.size())
        throw py::value_error("arrivals: a time for each factor");
    if (!arrivals.applications.empty() && arrivals.applications.size() != arrivals.recorded.size())
        throw py::value_error("arrivals: an application for each recorded arrival");
    for (const uint16_t application : arrivals.applications)
        if (application >= workload.applications.size())
            throw py::value_error("arrivals: an application that is not there");
}

} // namespace

FlowWorkload read_flow_workload(const py::dict &plain) {
    FlowWorkload workload{flow_applications(plain),
                          flow_arrivals(plain["arrivals"].cast<py::dict>())};
    check_arrivals(workload);
    return workload;
}

RequestWorkload read_request_workload(const py::dict &plain) {
    RequestWorkload workload;
    for (const auto &[share, law] :
         plain["applications"].cast<std::vector<std::pair<double, Law>>>())
        workload.applications.push_back({share, distribution(law)});
    if (workload.applications.empty())
        throw py::value_error("applications: at least one");
    workload.gaps = distribution(plain["gaps"].cast<Law>());
    workload.requests = plain["requests"].cast<uint64_t>();
    return workload;
}

} // namespace dcgym::twin
