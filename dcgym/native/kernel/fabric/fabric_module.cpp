// SPDX-License-Identifier: Apache-2.0
// The switches' loader and the next-hop groups as Python sees them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstddef>
#include <memory>

#include "common/bpf_object.hpp"
#include "fabric.hpp"
#include "groups.hpp"

namespace py = pybind11;

namespace {

using dcgym::Fabric;

void add_port(Fabric &fabric, uint32_t ifindex, uint32_t switch_id, uint32_t port_id,
              uint64_t mark_min_bytes, uint64_t mark_max_bytes, uint32_t mark_probability,
              uint64_t queue_bytes, uint32_t mark_weight, uint32_t mark_packet_ns, uint32_t mtu,
              bool to_host) {
    fabric.set_port(ifindex, {.in_use = 1,
                              .switch_id = switch_id,
                              .port_id = port_id,
                              .mark_probability = mark_probability,
                              .mark_min_bytes = mark_min_bytes,
                              .mark_max_bytes = mark_max_bytes,
                              .queue_bytes = queue_bytes,
                              .mark_weight = mark_weight,
                              .mark_packet_ns = mark_packet_ns,
                              .loss_in = 0,
                              .loss_out = 0,
                              .mtu = mtu,
                              .to_host = to_host});
}

py::tuple test_forward(const Fabric &fabric, const py::bytes &packet, uint32_t ifindex) {
    const auto run = fabric.test_run("fabric_forward", packet, ifindex);
    return py::make_tuple(static_cast<int32_t>(run.verdict), py::bytes(run.packet));
}

uint32_t test_select(const Fabric &fabric, const py::bytes &packet, uint32_t ifindex) {
    return fabric.test_run("fabric_select", packet, ifindex).verdict;
}

py::tuple test_mux(const Fabric &fabric, const py::bytes &packet, uint32_t ifindex) {
    const auto run = fabric.test_run("hmux_forward", packet, ifindex);
    return py::make_tuple(static_cast<int32_t>(run.verdict), py::bytes(run.packet));
}

uint32_t select_dip(const Fabric &fabric, const py::bytes &packet, uint32_t ifindex) {
    return fabric.test_run("hmux_select", packet, ifindex).verdict;
}

uint32_t time_dip(const Fabric &fabric, const py::bytes &packet, uint32_t ifindex,
                  uint32_t repeat) {
    return fabric.test_run("hmux_select", packet, ifindex, repeat).mean_ns;
}

uint32_t time_choice(const Fabric &fabric, const py::bytes &packet, uint32_t ifindex,
                     uint32_t repeat) {
    return fabric.test_run("fabric_select", packet, ifindex, repeat).mean_ns;
}

void set_group(const Fabric &fabric, uint32_t group_id, uint32_t salt,
               const std::vector<uint32_t> &ifindexes, const std::vector<double> &weights,
               std::optional<uint32_t> follows) {
    fabric.groups().replace(group_id, salt, ifindexes, weights, follows);
}

void test_egress(const Fabric &fabric, const py::bytes &packet, uint32_t ifindex, uint32_t times) {
    fabric.test_run("fabric_egress", packet, ifindex, times);
}

py::dict fabric_layout() {
    py::dict fields;
    fields["peak_bytes"] = offsetof(dcgym_port_counters, peak_bytes);
    fields["marks"] = offsetof(dcgym_port_counters, marks);
    fields["tx_packets"] = offsetof(dcgym_port_counters, tx_packets);
    fields["tx_bytes"] = offsetof(dcgym_port_counters, tx_bytes);
    fields["histogram"] = offsetof(dcgym_port_counters, histogram);
    py::dict layout;
    layout["size"] = sizeof(dcgym_port_counters);
    layout["offsets"] = fields;
    return layout;
}

void bind_changes(py::class_<Fabric> &fabric) {
    fabric
        .def(py::init([](const std::string &object_path, uint32_t switches, uint32_t hosts,
                         uint32_t ports, uint32_t groups, uint32_t ifindexes, bool flow_matrix,
                         uint32_t flow_entries, uint32_t least_mtu, const std::string &path_rule,
                         bool labels, const dcgym::HmuxSize &hmux) {
                 return std::make_unique<Fabric>(
                     object_path, dcgym::FabricSize{.switches = switches,
                                                    .hosts = hosts,
                                                    .ports = ports,
                                                    .groups = groups,
                                                    .ifindexes = ifindexes,
                                                    .has_flow_matrix = flow_matrix,
                                                    .flow_entries = flow_entries,
                                                    .least_mtu = least_mtu,
                                                    .path_rule = dcgym::find_path_rule(path_rule),
                                                    .has_labels = labels,
                                                    .hmux = hmux});
             }),
             py::arg("object_path"), py::kw_only(), py::arg("n_switches"), py::arg("n_hosts"),
             py::arg("n_ports"), py::arg("n_groups"), py::arg("n_ifindex") = 4 * 4096,
             py::arg("flow_matrix") = false, py::arg("flow_entries") = 0, py::arg("least_mtu") = 0,
             py::arg("path_rule") = "ecmp", py::arg("labels") = false,
             py::arg("hmux") = dcgym::HmuxSize{})
        .def("add_port", &add_port, py::arg("ifindex"), py::arg("switch_id"), py::arg("port_id"),
             py::arg("mark_min_bytes") = 0, py::arg("mark_max_bytes") = 0,
             py::arg("mark_probability") = 0, py::arg("queue_bytes") = 0,
             py::arg("mark_weight") = DCGYM_PROBABILITY_ONE, py::arg("mark_packet_ns") = 0,
             py::arg("mtu") = 0, py::arg("to_host") = false,
             "Describe a port; may be called again to change its marking. Packets larger than the "
             "MTU are dropped and their senders told; 0 is any size.")
        .def("set_group", &set_group, py::arg("group_id"), py::arg("salt"), py::arg("ifindexes"),
             py::arg("weights"), py::arg("follows") = py::none(),
             "Spread flows over ports in proportion to the weights; replaces a group whole, and "
             "flows leave ports that are no members any more. What agents set in the group that "
             "this one follows holds here too.")
        .def("set_route", &Fabric::set_route, py::arg("switch_id"), py::arg("host_number"),
             py::arg("group_id"), "Send a host's packets to a group of ports.")
        .def("clear_route", &Fabric::clear_route, py::arg("switch_id"), py::arg("host_number"),
             "Drop a host's packets, counted as no_route.")
        .def("set_loss", &Fabric::set_loss, py::arg("ifindex"), py::arg("loss_in"),
             py::arg("loss_out"),
             "Lose packets that arrive and leave with these probabilities; add_port ends it.")
        .def("attach", &Fabric::attach, py::arg("ifindex"), py::arg("forward") = true,
             "Put the programs on an interface of the caller's network namespace; without "
             "forwarding it only marks and measures.")
        .def("detach", &Fabric::detach, py::arg("ifindex"),
             "Remove clsact and the programs from an interface.");
}

void bind_descriptors(py::class_<Fabric> &fabric) {
    fabric
        .def_property_readonly("group_map_fd", &Fabric::group_map_fd,
                               "Descriptor of the groups, for `GroupTable`.")
        .def_property_readonly("control_map_fd", &Fabric::control_map_fd,
                               "Descriptor of the run-time settings, for `GroupTable`.")
        .def_property_readonly("label_map_fd", &Fabric::label_map_fd,
                               "Descriptor of the labels that senders give their flows.")
        .def_property_readonly("hmux", py::cpp_function(&Fabric::hmux, py::keep_alive<0, 1>()),
                               "The tables of switches that are muxes.")
        .def_property_readonly("port_map_fd", &Fabric::port_map_fd,
                               "Descriptor of the memory-mapped port counters.")
        .def_property_readonly("flow_map_fd", &Fabric::flow_map_fd,
                               "Descriptor of the memory-mapped flow matrix.")
        .def("drop_counters", &Fabric::drop_counters, "Packets dropped, by reason.");
}

void bind_tests(py::class_<Fabric> &fabric) {
    fabric
        .def("test_forward", &test_forward, py::arg("packet"), py::arg("ifindex"),
             "Run the ingress program on a packet: (verdict, packet left).")
        .def("test_mux", &test_mux, py::arg("packet"), py::arg("ifindex"),
             "Run the ingress program of a switch that is a mux: (verdict, packet left).")
        .def("select_dip", &select_dip, py::arg("packet"), py::arg("ifindex"),
             "Number of the host or switch that such a switch sends a packet to, or 0.")
        .def("time_dip", &time_dip, py::arg("packet"), py::arg("ifindex"), py::arg("repeat"),
             "Mean time of that decision over many packets, in ns.")
        .def("test_select", &test_select, py::arg("packet"), py::arg("ifindex"),
             "Return the ifindex a packet would leave by, or 0; the flow table remembers it.")
        .def("time_select", &time_choice, py::arg("packet"), py::arg("ifindex"), py::arg("repeat"),
             "Mean time of that decision over many packets, in ns.")
        .def("test_egress", &test_egress, py::arg("packet"), py::arg("ifindex"),
             py::arg("times") = 1,
             "Run the egress program on a packet, as if it came to the interface's queue.")
        .def("seed_paths", &Fabric::seed_paths, py::arg("seed"),
             "Begin the draws of paths anew; the first CPU's come from the seed itself.")
        .def("reset_red", &Fabric::reset_red, "Set RED's averages of all ports to 0.")
        .def("red_average_bytes", &Fabric::red_average_bytes, py::arg("port_id"),
             "Queue as RED at a port averages it.");
}

void bind_hmux(py::module_ &module) {
    using dcgym::Hmux;
    using dcgym::HmuxSize;
    py::class_<HmuxSize>(module, "HmuxSize", "What switches that are muxes have.")
        .def(py::init([](uint32_t n_vips, uint32_t first_vip, uint32_t software_mux,
                         uint32_t ecmp_entries, uint32_t tunnel_entries, uint64_t seed) {
                 return HmuxSize{seed,         n_vips,       first_vip,
                                 software_mux, ecmp_entries, tunnel_entries};
             }),
             py::kw_only(), py::arg("n_vips"), py::arg("first_vip"), py::arg("software_mux") = 0,
             py::arg("ecmp_entries") = 4096, py::arg("tunnel_entries") = 512, py::arg("seed") = 0);
    py::class_<Hmux>(module, "Hmux", "The tables of switches that are muxes.")
        .def("set_route", &Hmux::set_route, py::arg("switch_id"), py::arg("vip"), py::arg("number"),
             "Route a VIP's /32 to a number; 0 leaves it to the prefix.")
        .def("set_block", &Hmux::set_block, py::arg("switch_id"), py::arg("vip"),
             py::arg("first_entry"), py::arg("n_entries"),
             "Make a switch the mux of a VIP, by a block of its equal-cost entries.")
        .def("set_local", &Hmux::set_local, py::arg("switch_id"), py::arg("vip"),
             py::arg("first_entry"), py::arg("n_entries"), py::arg("number"),
             "Make a switch the mux of a VIP for its own hosts; others' packets are routed to the "
             "number, or by the prefix.")
        .def("set_entry", &Hmux::set_entry, py::arg("switch_id"), py::arg("index"),
             py::arg("tunnel"), "Let an equal-cost entry lead into a tunnel.")
        .def("set_tunnel", &Hmux::set_tunnel, py::arg("switch_id"), py::arg("index"),
             py::arg("host_number"), "Let a tunnel end at a host.")
        .def_static("wait_for_readers", &Hmux::wait_for_readers,
                    py::call_guard<py::gil_scoped_release>(),
                    "Wait until no packet still follows what was set before.");
}

} // namespace

void bind_fabric(py::module_ &module) {
    module.attr("PROBABILITY_ONE") = DCGYM_PROBABILITY_ONE;
    module.attr("GROUP_MEMBERS") = DCGYM_GROUP_MEMBERS;
    module.attr("HISTOGRAM_BUCKETS") = DCGYM_HISTOGRAM_BUCKETS;
    module.def("fabric_layout", &fabric_layout,
               "Size and offsets of one record of the port counters.");
    bind_hmux(module);
    py::class_<Fabric> fabric(module, "Fabric", "The eBPF switches of one emulation.");
    bind_changes(fabric);
    bind_descriptors(fabric);
    bind_tests(fabric);
    fabric.def("close", &Fabric::close, "Release programs and maps; idempotent.");
}

namespace {

using dcgym::GroupTable;
using dcgym::PathWeights;
using Weights = py::array_t<double, py::array::c_style | py::array::forcecast>;

py::dict read_group(const GroupTable &table, uint32_t group_id) {
    const dcgym_group_table group = table.read(group_id);
    py::list slots;
    for (uint32_t i = 0; i < group.size; i++)
        slots.append(
            py::make_tuple(group.slots[i].ifindex, group.slots[i].alias, group.slots[i].threshold));
    using namespace py::literals;
    return py::dict("salt"_a = group.salt, "generation"_a = group.generation, "slots"_a = slots);
}

uint64_t apply_weights(PathWeights &self, const Weights &weights) {
    const double *values = weights.data();
    if (weights.ndim() != 1 || static_cast<size_t>(weights.size()) != self.size())
        dcgym::throw_config_error("weights", std::to_string(weights.size()) + " weights",
                                  std::to_string(self.size()) + " weights, one a member");
    for (size_t i = 0; i < self.size(); i++)
        if (!std::isfinite(values[i]) || values[i] < 0)
            dcgym::throw_config_error("weights", std::to_string(values[i]), "finite, 0 or more");
    const py::gil_scoped_release released;
    return self.apply(values);
}

} // namespace

void bind_groups(py::module_ &module) {
    py::class_<GroupTable, std::shared_ptr<GroupTable>>(
        module, "GroupTable", "Next-hop groups of a fabric, in mapped memory.")
        .def(py::init<int, int, uint32_t>(), py::kw_only(), py::arg("group_map_fd"),
             py::arg("control_map_fd"), py::arg("n_groups"))
        .def("replace", &GroupTable::replace, py::arg("group_id"), py::arg("salt"),
             py::arg("ifindexes"), py::arg("weights"), py::arg("follows") = py::none(),
             "Replace members and weights in one step; flows leave members that are gone. What "
             "agents set in the group that this one follows holds here too.")
        .def("read", &read_group, py::arg("group_id"),
             "The table in force: salt, generation and (ifindex, alias, threshold) a slot.")
        .def("set_flowlet_gap", &GroupTable::set_flowlet_gap, py::arg("gap_ns"),
             "Let flows move after an idle gap; 0 keeps every flow on its path.")
        .def("forget_flows", &GroupTable::forget_flows, "Empty the flow table at once.");
    py::class_<PathWeights>(module, "PathWeights", "Writes the weights of many groups in a pass.")
        .def(py::init<std::shared_ptr<GroupTable>, std::vector<uint32_t>,
                      std::vector<std::vector<uint32_t>>>(),
             py::arg("table"), py::arg("group_ids"), py::arg("ifindexes"))
        .def("apply", &apply_weights, py::arg("weights"),
             "Set one weight a member, group by group; returns CLOCK_MONOTONIC in ns.");
}
