// SPDX-License-Identifier: Apache-2.0
// Python face of the native parts. Every call that may wait releases the interpreter lock.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "telemetry/collector.hpp"
#include "common/lifetime.hpp"
#include "netlink/netlink.hpp"
#include "telemetry.h"

namespace py = pybind11;
using namespace dcgym;
using Rates = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;

void bind_balancer(py::module_ &module);
void bind_balancer_pools(py::module_ &module);
void bind_load_reporter(py::module_ &module);
void bind_fabric(py::module_ &module);
void bind_groups(py::module_ &module);
void bind_congestion(py::module_ &module);
void bind_builder(py::module_ &module);
void bind_links(py::module_ &module);
void bind_ping(py::module_ &module);
void bind_queues(py::module_ &module);

namespace {

const uint64_t *checked(const Rates &rates, size_t expected) {
    if (rates.ndim() != 1 || static_cast<size_t>(rates.size()) != expected)
        throw py::value_error("rates_bps: one value per host expected, " +
                              std::to_string(expected));
    return rates.data();
}

// Sleeps to an absolute CLOCK_MONOTONIC time; returns how late it woke, in ns.
int64_t wait_until(uint64_t deadline_ns) {
    const timespec deadline{static_cast<time_t>(deadline_ns / 1'000'000'000),
                            static_cast<long>(deadline_ns % 1'000'000'000)};
    // The kernel may delay a wake-up by 50 us to join it with others (timer_slack); not this one.
    prctl(PR_SET_TIMERSLACK, 1UL);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
        const py::gil_scoped_acquire held;
        if (PyErr_CheckSignals() != 0)
            throw py::error_already_set();
    }
    prctl(PR_SET_TIMERSLACK, 0UL); // the thread's default again
    return static_cast<int64_t>(monotonic_ns() - deadline_ns);
}

py::dict telemetry_layout() {
    py::dict port, host, header;
#define FIELD(into, type, name) into[#name] = offsetof(struct type, name)
    FIELD(header, dcgym_telemetry_header, magic);
    FIELD(header, dcgym_telemetry_header, version);
    FIELD(header, dcgym_telemetry_header, sequence);
    FIELD(header, dcgym_telemetry_header, time_ns);
    FIELD(header, dcgym_telemetry_header, heartbeat_ns);
    FIELD(header, dcgym_telemetry_header, source_ns);
    FIELD(header, dcgym_telemetry_header, n_ports);
    FIELD(header, dcgym_telemetry_header, n_hosts);
    FIELD(header, dcgym_telemetry_header, steps);
    FIELD(header, dcgym_telemetry_header, step_ns);
    FIELD(header, dcgym_telemetry_header, interval_ns);
    FIELD(header, dcgym_telemetry_header, action_latency_ns);
    FIELD(header, dcgym_telemetry_header, overrun_ns);
    FIELD(header, dcgym_telemetry_header, worst_overrun_ns);
    FIELD(header, dcgym_telemetry_header, late_steps);
    FIELD(port, dcgym_telemetry_port, tx_bytes);
    FIELD(port, dcgym_telemetry_port, tx_packets);
    FIELD(port, dcgym_telemetry_port, rx_bytes);
    FIELD(port, dcgym_telemetry_port, rx_packets);
    FIELD(port, dcgym_telemetry_port, drops);
    FIELD(port, dcgym_telemetry_port, overlimits);
    FIELD(port, dcgym_telemetry_port, marks);
    FIELD(port, dcgym_telemetry_port, backlog_bytes);
    FIELD(port, dcgym_telemetry_port, peak_bytes);
    FIELD(host, dcgym_telemetry_host, tx_bytes);
    FIELD(host, dcgym_telemetry_host, rx_bytes);
    FIELD(host, dcgym_telemetry_host, retransmits);
    FIELD(host, dcgym_telemetry_host, srtt_ns);
    FIELD(host, dcgym_telemetry_host, min_rtt_ns);
    FIELD(host, dcgym_telemetry_host, rtt_sum_ns);
    FIELD(host, dcgym_telemetry_host, rtt_samples);
    FIELD(host, dcgym_telemetry_host, active_flows);
    FIELD(host, dcgym_telemetry_host, rate_bps);
    FIELD(host, dcgym_telemetry_host, backlog_bytes);
    FIELD(host, dcgym_telemetry_host, drops);
#undef FIELD
    using namespace py::literals;
    return py::dict("magic"_a = DCGYM_TELEMETRY_MAGIC, "version"_a = DCGYM_TELEMETRY_VERSION,
                    "header"_a = header, "header_bytes"_a = sizeof(dcgym_telemetry_header),
                    "port"_a = port, "port_bytes"_a = sizeof(dcgym_telemetry_port), "host"_a = host,
                    "host_bytes"_a = sizeof(dcgym_telemetry_host));
}

void create_buckets(const std::vector<TokenBucket> &buckets) {
    set_token_buckets(buckets, BucketChange::create);
}

void bind_lifetime(py::module_ &module) {
    module.def("unshare_namespaces", &unshare_namespaces);
    module.def("mount_private", &mount_private);
    module.def("die_with_parent", &die_with_parent);
    module.def("watch_owner", &watch_owner, py::arg("channel_fd"), py::arg("owner_pidfd"));
    module.def("write_sysctl", &write_sysctl, py::arg("namespace_fd"), py::arg("path"),
               py::arg("value"), py::call_guard<py::gil_scoped_release>());
    module.def("open_udp", &open_udp, py::arg("namespace_fd"));
    module.def("wait_until", &wait_until, py::arg("deadline_ns"),
               py::call_guard<py::gil_scoped_release>());
    module.def("monotonic_ns", &monotonic_ns);
}

void bind_netlink(py::module_ &module) {
    py::class_<TokenBucket>(module, "TokenBucket")
        .def(py::init([](int rtnl_fd, int ifindex, uint64_t rate_bps, uint32_t limit_bytes,
                         uint64_t link_rate_bps) {
                 return make_bucket(rtnl_fd, ifindex, rate_bps, limit_bytes,
                                    link_rate_bps ? link_rate_bps : rate_bps);
             }),
             py::arg("rtnl_fd"), py::arg("ifindex"), py::arg("rate_bps"), py::arg("limit_bytes"),
             py::arg("link_rate_bps") = 0)
        .def_readonly("burst_bytes", &TokenBucket::burst_bytes)
        .def_readonly("rate_bps", &TokenBucket::rate_bps);
    module.def("open_rtnl", &open_rtnl, py::arg("namespace_fd") = -1);
    module.def("open_rtnls", &open_rtnls, py::arg("namespace_fds"));
    module.def("burst_for", &burst_for, py::arg("rate_bps"));
    module.def("create_buckets", &create_buckets, py::arg("buckets"),
               py::call_guard<py::gil_scoped_release>());
    module.def("flush_buckets", &flush_token_buckets, py::arg("buckets"),
               py::call_guard<py::gil_scoped_release>());
    py::class_<RateLimiter>(module, "RateLimiter")
        .def(py::init<std::vector<int>, std::vector<int>, uint32_t, std::vector<uint64_t>>(),
             py::arg("rtnl_fds"), py::arg("ifindexes"), py::arg("limit_bytes"),
             py::arg("link_rates_bps"))
        .def(
            "apply",
            [](RateLimiter &self, const Rates &rates) {
                const uint64_t *values = checked(rates, self.rates_bps().size());
                const py::gil_scoped_release released;
                return self.apply(values);
            },
            py::arg("rates_bps"));
}

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
    py::class_<Collector>(module, "Collector")
        .def(py::init([](int telemetry_fd, size_t n_hosts, int queue_program_fd, int queue_map_fd,
                         size_t n_queues, std::vector<size_t> rx_slots, int port_map_fd,
                         int generator_fd) {
                 const QueueSource queues{queue_program_fd, queue_map_fd, n_queues,
                                          std::move(rx_slots)};
                 return std::make_unique<Collector>(telemetry_fd, n_hosts, queues, port_map_fd,
                                                    generator_fd);
             }),
             py::arg("telemetry_fd"), py::arg("n_hosts"), py::arg("queue_program_fd"),
             py::arg("queue_map_fd"), py::arg("n_queues"), py::arg("rx_slots"),
             py::arg("port_map_fd"), py::arg("generator_fd"))
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
        .def("note_action", &Collector::note_action, py::arg("acknowledged_ns"))
        .def("note_deadline", &Collector::note_deadline, py::arg("deadline_ns"),
             py::arg("overrun_ns"))
        .def_property_readonly("error", &Collector::error);
}

} // namespace

PYBIND11_MODULE(_native, module) {
    module.doc() = "Native parts of dcgym: namespaces, traffic control, telemetry, BPF.";
    py::register_exception_translator([](std::exception_ptr problem) {
        try {
            if (problem)
                std::rethrow_exception(problem);
        } catch (const std::system_error &error) {
            errno = error.code().value();
            PyErr_SetObject(PyExc_OSError,
                            py::make_tuple(error.code().value(), error.what()).ptr());
        }
    });
    bind_lifetime(module);
    bind_netlink(module);
    bind_telemetry(module);
    bind_groups(module);
    bind_fabric(module);
    bind_balancer_pools(module);
    bind_balancer(module);
    bind_load_reporter(module);
    bind_congestion(module);
    bind_builder(module);
    bind_links(module);
    bind_ping(module);
    bind_queues(module);
}
