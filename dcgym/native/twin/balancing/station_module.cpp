// SPDX-License-Identifier: Apache-2.0
// The station of the emulated HTTP servers by itself, for tests.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <tuple>
#include <vector>

#include "service_station.hpp"

namespace py = pybind11;
using namespace dcgym;

namespace {

using Column = py::array_t<int64_t, py::array::c_style>;

// A station whose owner looks every period, and at every arrival.
struct WatchedStation {
    ServiceStation station;
    int64_t period_ns;
    int64_t change_ns; // when speed and co-located load become those below; at most 0: never
    double speed;
    double colocated;
    std::vector<int64_t> ends_ns;
    int64_t now_ns = 0;

    void look(int64_t at_ns) {
        if (now_ns < change_ns && change_ns <= at_ns) {
            station.advance(change_ns);
            station.set_speed(change_ns, speed);
            station.set_colocated(change_ns, colocated);
        }
        station.advance(at_ns);
        for (const ServiceStation::Ended &job : station.take_ended())
            ends_ns[job.ticket] = job.refused ? -job.end_ns : job.end_ns;
        now_ns = at_ns;
    }
    void look_until(int64_t at_ns) {
        while (now_ns + period_ns < at_ns)
            look(now_ns + period_ns);
        look(at_ns);
    }
};

using Rows = std::vector<std::tuple<uint32_t, uint32_t, double, uint32_t>>;

// When each job ends, negative where it is refused; jobs are in the order of their arrival. Stages
// are numbers of resources.
Column station_ends(const Rows &resources, const Column &arrivals_ns, const Column &demands_ns,
                    const std::vector<uint32_t> &resource_numbers, int64_t period_ns,
                    int64_t change_ns, double speed, double colocated) {
    const auto arrivals = arrivals_ns.unchecked<1>();
    const auto demands = demands_ns.unchecked<2>();
    StationConfig config;
    for (const auto &[workers, slots, own_speed, limit] : resources)
        config.push_back({{workers, slots, own_speed}, limit});
    for (const uint32_t number : resource_numbers)
        if (number >= config.size())
            throw py::value_error("stages: a resource that the station has not");
    WatchedStation watched{ServiceStation(config),
                           period_ns,
                           change_ns,
                           speed,
                           colocated,
                           std::vector<int64_t>(static_cast<size_t>(arrivals.size()))};
    for (py::ssize_t job = 0; job < arrivals.shape(0); job++) {
        watched.look_until(arrivals(job));
        std::vector<ServiceStage> stages;
        for (size_t i = 0; i < resource_numbers.size(); i++)
            stages.push_back({demands(job, static_cast<py::ssize_t>(i)), resource_numbers[i]});
        watched.station.arrive(arrivals(job), static_cast<uint64_t>(job), stages);
    }
    while (watched.station.next_ns() != ServiceStation::kNever)
        watched.look(watched.now_ns + period_ns);
    watched.look(watched.now_ns);
    return Column(static_cast<py::ssize_t>(watched.ends_ns.size()), watched.ends_ns.data());
}

} // namespace

void bind_station(py::module_ &module) {
    module.def("station_ends", &station_ends);
    module.attr("MAX_RESOURCES") = max_resources;
}
