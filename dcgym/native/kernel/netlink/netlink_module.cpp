// SPDX-License-Identifier: Apache-2.0
// Token buckets, interfaces and reachability as Python sees them.
#include <arpa/inet.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "links.hpp"
#include "netlink.hpp"
#include "ping.hpp"
#include "rate_limiter.hpp"

namespace py = pybind11;
using namespace dcgym;

using Rates = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;

namespace {

const uint64_t *checked(const Rates &rates, size_t expected) {
    if (rates.ndim() != 1 || static_cast<size_t>(rates.size()) != expected)
        throw py::value_error("rates_bps: one value per host expected, " +
                              std::to_string(expected));
    return rates.data();
}

void create_buckets(const std::vector<TokenBucket> &buckets) {
    set_token_buckets(buckets, BucketChange::create);
}

void change_rates(const std::vector<TokenBucket> &buckets) {
    set_token_buckets(buckets, BucketChange::modify);
}

} // namespace

void bind_rates(py::module_ &module) {
    py::class_<TokenBucket>(module, "TokenBucket")
        .def(py::init([](int rtnl_fd, int ifindex, uint64_t rate_bps, uint32_t limit_bytes,
                         uint32_t frame_bytes, uint64_t link_rate_bps) {
                 return make_bucket(rtnl_fd, ifindex, rate_bps, limit_bytes, frame_bytes,
                                    link_rate_bps ? link_rate_bps : rate_bps);
             }),
             py::arg("rtnl_fd"), py::arg("ifindex"), py::arg("rate_bps"), py::arg("limit_bytes"),
             py::arg("frame_bytes"), py::arg("link_rate_bps") = 0)
        .def_readonly("burst_bytes", &TokenBucket::burst_bytes)
        .def_readonly("rate_bps", &TokenBucket::rate_bps);
    module.def("open_rtnl", &open_rtnl, py::arg("namespace_fd") = -1);
    module.def("open_rtnls", &open_rtnls, py::arg("namespace_fds"));
    module.def("burst_for", &burst_for, py::arg("rate_bps"), py::arg("frame_bytes"));
    module.def("create_buckets", &create_buckets, py::arg("buckets"),
               py::call_guard<py::gil_scoped_release>());
    module.def("change_rates", &change_rates, py::arg("buckets"),
               py::call_guard<py::gil_scoped_release>(),
               "Change token buckets that exist; what they queue stays.");
    module.def("flush_buckets", &flush_token_buckets, py::arg("buckets"),
               py::call_guard<py::gil_scoped_release>());
    py::class_<RateLimiter>(module, "RateLimiter")
        .def(py::init<std::vector<int>, std::vector<int>, uint32_t, std::vector<uint32_t>,
                      std::vector<uint64_t>>(),
             py::kw_only(), py::arg("rtnl_fds"), py::arg("ifindexes"), py::arg("limit_bytes"),
             py::arg("frames_bytes"), py::arg("link_rates_bps"))
        .def(
            "apply",
            [](RateLimiter &self, const Rates &rates) {
                const uint64_t *values = checked(rates, self.rates_bps().size());
                const py::gil_scoped_release released;
                return self.apply(values);
            },
            py::arg("rates_bps"));
}

void bind_links(py::module_ &module) {
    using dcgym::LinkMonitor;
    using Released = py::call_guard<py::gil_scoped_release>;
    py::class_<LinkMonitor>(module, "LinkMonitor", "The interfaces of this network namespace.")
        .def(py::init<>())
        .def("wait", &LinkMonitor::wait, py::arg("timeout_ms") = -1, Released(),
             "Wait for a change of any interface; False after `stop`, or without one.")
        .def("stop", &LinkMonitor::stop, "Make `wait` return, now and for ever.")
        .def("running", &LinkMonitor::running, Released(),
             "Return the numbers of the interfaces that are up and have a carrier.")
        .def("set_up", &LinkMonitor::set_up, py::arg("ifindexes"), py::arg("up"), Released(),
             "Take interfaces down or up in one batch.");
}

void bind_ping(py::module_ &module) {
    module.def(
        "unreachable_pairs",
        [](const std::vector<std::pair<int, std::string>> &pairs, int deadline_ms) {
            std::vector<dcgym::PingHost> hosts;
            for (const auto &[fd, text] : pairs) {
                in_addr address{};
                if (inet_pton(AF_INET, text.c_str(), &address) != 1)
                    throw py::value_error("not an IPv4 address: " + text);
                hosts.push_back({fd, address.s_addr});
            }
            const py::gil_scoped_release released;
            return dcgym::unreachable_pairs(hosts, deadline_ms);
        },
        py::arg("hosts"), py::arg("deadline_ms"),
        "Ping between all pairs of hosts (namespace descriptor, address); pairs without an "
        "answer.");
}
