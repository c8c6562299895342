// SPDX-License-Identifier: Apache-2.0
// The writer of policies between the devices of a server, as Python sees it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "balancer_devices.hpp"
#include "common/bpf_object.hpp"
#include "device_reports.h"
#include "l4lb.h"

namespace py = pybind11;

namespace {

using dcgym::BalancerDevices;
using dcgym::DeviceChange;
using Weights = py::array_t<double, py::array::c_style | py::array::forcecast>;

void set_policy(BalancerDevices &devices, uint32_t vip, std::optional<uint32_t> rule,
                std::optional<uint32_t> threshold, std::optional<uint64_t> max_age_ns,
                const std::optional<Weights> &weights, std::optional<uint32_t> ring_slots,
                std::optional<dcgym::Members> members) {
    DeviceChange change{rule, threshold, max_age_ns, {}, ring_slots, std::move(members)};
    if (weights) {
        if (weights->ndim() != 2)
            dcgym::throw_config_error("weights", std::to_string(weights->ndim()) + " dimensions",
                                      "servers and devices");
        change.weights = {weights->data(), static_cast<size_t>(weights->shape(0)),
                          static_cast<size_t>(weights->shape(1))};
    }
    devices.set_policy(vip, change);
}

#define OFFSET(type, field) py::arg(#field) = offsetof(type, field)

// Sizes, and offsets of some fields: what follows them moves where they do.
py::dict device_layout() {
    using Device = dcgym_device;
    using Policy = dcgym_lb_device_policy;
    using Server = dcgym_lb_server_devices;
    using Turns = dcgym_device_turns;
    using All = dcgym_lb_devices;
    py::dict layout;
    const auto add = [&](const char *name, size_t bytes, py::dict offsets) {
        layout[name] = py::make_tuple(bytes, offsets);
    };
    add("device", sizeof(Device),
        py::dict(OFFSET(Device, time_ns), OFFSET(Device, reports), OFFSET(Device, sequence),
                 OFFSET(Device, queue), OFFSET(Device, load), OFFSET(Device, is_busy),
                 OFFSET(Device, memory)));
    add("device_turns", sizeof(Turns), py::dict(OFFSET(Turns, next), OFFSET(Turns, credit)));
    add("lb_device_policy", sizeof(Policy),
        py::dict(OFFSET(Policy, sequence), OFFSET(Policy, time_ns), OFFSET(Policy, max_age_ns),
                 OFFSET(Policy, rule), OFFSET(Policy, threshold), OFFSET(Policy, present),
                 OFFSET(Policy, ring_of), OFFSET(Policy, by_bits), OFFSET(Policy, weight),
                 OFFSET(Policy, ring_slots), OFFSET(Policy, ring)));
    add("lb_server_devices", sizeof(Server),
        py::dict(OFFSET(Server, heard), OFFSET(Server, turns), OFFSET(Server, connections),
                 OFFSET(Server, packets)));
    add("lb_devices", sizeof(All), py::dict(OFFSET(All, policies), OFFSET(All, servers)));
    return layout;
}

} // namespace

void bind_balancer_devices(py::module_ &module) {
    module.attr("DEVICE_REPORT_TYPE") = DCGYM_DEVICE_REPORT_TYPE;
    module.def("device_layout", &device_layout,
               "Sizes and offsets of the structs of balancer_devices.h.");
    py::class_<BalancerDevices, std::shared_ptr<BalancerDevices>>(
        module, "BalancerDevices",
        "Writes how a balancer chooses between the devices of a server, through mapped memory; "
        "one writer a balancer.")
        .def(py::init<int, uint32_t>(), py::arg("device_map_fd"), py::arg("n_vips"))
        .def(
            "set_policy", &set_policy, py::arg("vip"), py::kw_only(), py::arg("rule") = py::none(),
            py::arg("threshold") = py::none(), py::arg("max_age_ns") = py::none(),
            py::arg("weights") = py::none(), py::arg("ring_slots") = py::none(),
            py::arg("members") = py::none(),
            "Change how the devices of a VIP's servers are chosen, from the next new connection "
            "on; what is None stays, and so do connections. All takes effect at once; where "
            "something is refused, nothing does. rule: a number of device_rules.h; threshold: that "
            "of prt, in per cent; max_age_ns: older reports count as none, 0 for never; weights: a "
            "row a server number and a column a device, each 0 or more, of which ratios alone "
            "count; ring_slots: the most that a ring has; members: the devices that take new "
            "connections, by server; 0 is the processors, which servers that are not named have "
            "alone.");
}
