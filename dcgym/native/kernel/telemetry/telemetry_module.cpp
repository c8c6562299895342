// SPDX-License-Identifier: Apache-2.0
// The telemetry region, its writer and the reader of queues as Python sees them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "collector.hpp"
#include "owned.hpp"
#include "queues.hpp"
#include "telemetry.h"

namespace py = pybind11;
using namespace dcgym;

using Rates = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;

namespace {

#define FIELD(type, name) fields[#name] = offsetof(struct type, name)

py::dict header_fields() {
    py::dict fields;
    FIELD(dcgym_telemetry_header, magic);
    FIELD(dcgym_telemetry_header, version);
    FIELD(dcgym_telemetry_header, sequence);
    FIELD(dcgym_telemetry_header, time_ns);
    FIELD(dcgym_telemetry_header, heartbeat_ns);
    FIELD(dcgym_telemetry_header, source_ns);
    FIELD(dcgym_telemetry_header, n_ports);
    FIELD(dcgym_telemetry_header, n_hosts);
    FIELD(dcgym_telemetry_header, steps);
    FIELD(dcgym_telemetry_header, step_ns);
    FIELD(dcgym_telemetry_header, interval_ns);
    FIELD(dcgym_telemetry_header, action_latency_ns);
    FIELD(dcgym_telemetry_header, overrun_ns);
    FIELD(dcgym_telemetry_header, worst_overrun_ns);
    FIELD(dcgym_telemetry_header, late_steps);
    return fields;
}

py::dict port_fields() {
    py::dict fields;
    FIELD(dcgym_telemetry_port, tx_bytes);
    FIELD(dcgym_telemetry_port, tx_packets);
    FIELD(dcgym_telemetry_port, rx_bytes);
    FIELD(dcgym_telemetry_port, rx_packets);
    FIELD(dcgym_telemetry_port, drops);
    FIELD(dcgym_telemetry_port, overlimits);
    FIELD(dcgym_telemetry_port, marks);
    FIELD(dcgym_telemetry_port, backlog_bytes);
    FIELD(dcgym_telemetry_port, peak_bytes);
    return fields;
}

py::dict host_fields() {
    py::dict fields;
    FIELD(dcgym_telemetry_host, tx_bytes);
    FIELD(dcgym_telemetry_host, rx_bytes);
    FIELD(dcgym_telemetry_host, retransmits);
    FIELD(dcgym_telemetry_host, srtt_ns);
    FIELD(dcgym_telemetry_host, min_rtt_ns);
    FIELD(dcgym_telemetry_host, rtt_sum_ns);
    FIELD(dcgym_telemetry_host, rtt_samples);
    FIELD(dcgym_telemetry_host, active_flows);
    FIELD(dcgym_telemetry_host, rate_bps);
    FIELD(dcgym_telemetry_host, backlog_bytes);
    FIELD(dcgym_telemetry_host, drops);
    return fields;
}

#undef FIELD

py::dict telemetry_layout() {
    using namespace py::literals;
    return py::dict("magic"_a = DCGYM_TELEMETRY_MAGIC, "version"_a = DCGYM_TELEMETRY_VERSION,
                    "header"_a = header_fields(), "header_bytes"_a = sizeof(dcgym_telemetry_header),
                    "port"_a = port_fields(), "port_bytes"_a = sizeof(dcgym_telemetry_port),
                    "host"_a = host_fields(), "host_bytes"_a = sizeof(dcgym_telemetry_host));
}

void bind_collector(py::module_ &module) {
    py::class_<Collector, Owned<Collector>>(module, "Collector")
        .def(py::init([](int telemetry_fd, size_t n_hosts, int queue_program_fd, int queue_map_fd,
                         size_t n_queues, std::vector<size_t> rx_slots, int port_map_fd,
                         int generator_fd) {
                 return Owned<Collector>(
                     new Collector(CollectorSources{.telemetry_fd = telemetry_fd,
                                                    .n_hosts = n_hosts,
                                                    .queues = {.program_fd = queue_program_fd,
                                                               .map_fd = queue_map_fd,
                                                               .n_queues = n_queues,
                                                               .rx_slots = std::move(rx_slots)},
                                                    .port_map_fd = port_map_fd,
                                                    .generator_fd = generator_fd}));
             }),
             py::kw_only(), py::arg("telemetry_fd"), py::arg("n_hosts"),
             py::arg("queue_program_fd"), py::arg("queue_map_fd"), py::arg("n_queues"),
             py::arg("rx_slots"), py::arg("port_map_fd") = -1, py::arg("generator_fd") = -1)
        .def("collect", &Collector::collect, py::arg("reset_peaks") = true,
             py::call_guard<py::gil_scoped_release>())
        .def("rebase", &Collector::rebase, py::call_guard<py::gil_scoped_release>())
        .def("total_backlog_bytes", &Collector::total_backlog_bytes,
             py::call_guard<py::gil_scoped_release>())
        .def("run_every", &Collector::run_every, py::arg("period_ns"),
             py::call_guard<py::gil_scoped_release>())
        .def("stop", &Collector::stop, py::call_guard<py::gil_scoped_release>())
        .def(
            "set_rates", [](Collector &self, const Rates &rates) { self.set_rates(rates.data()); },
            py::arg("rates_bps"))
        .def("announce_deadline", &Collector::announce_deadline, py::arg("deadline_ns"))
        .def("note_action", &Collector::note_action, py::arg("acknowledged_ns"))
        .def("note_deadline", &Collector::note_deadline, py::arg("deadline_ns"),
             py::arg("overrun_ns"))
        .def_property_readonly("error", &Collector::error);
}

} // namespace

void bind_telemetry(py::module_ &module) {
    module.def("telemetry_layout", &telemetry_layout);
    module.def("telemetry_bytes", &telemetry_bytes, py::arg("n_ports"), py::arg("n_hosts"));
    module.def(
        "read_consistent",
        [](const py::buffer &region, py::buffer destination) {
            const py::buffer_info from = region.request(), to = destination.request(true);
            const size_t bytes = static_cast<size_t>(from.size * from.itemsize);
            if (static_cast<size_t>(to.size * to.itemsize) < bytes)
                throw py::value_error("destination is too small");
            const py::gil_scoped_release released;
            return read_consistent(static_cast<const char *>(from.ptr), bytes,
                                   static_cast<char *>(to.ptr));
        },
        py::arg("region"), py::arg("destination"));
    bind_collector(module);
}

void bind_queues(py::module_ &module) {
    using dcgym::QueueReader;
    module.def("read_queues", &dcgym::read_queues, py::arg("program_fd"),
               "Copy all queues into the reader's mapped array.");
    py::class_<QueueReader>(module, "QueueReader",
                            "Reads the root queues of interfaces of any namespace.")
        .def(py::init(
                 [](const std::string &object_path, const std::vector<std::pair<int, int>> &pairs) {
                     std::vector<dcgym::NamespaceInterface> interfaces;
                     for (const auto &[namespace_fd, ifindex] : pairs)
                         interfaces.push_back({namespace_fd, ifindex});
                     return std::make_unique<QueueReader>(object_path, interfaces);
                 }),
             py::arg("object_path"), py::arg("interfaces"))
        .def_property_readonly("program_fd", &QueueReader::program_fd)
        .def_property_readonly("map_fd", &QueueReader::map_fd);
}
