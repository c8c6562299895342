// SPDX-License-Identifier: Apache-2.0
// The balancer's loader as Python sees it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "balancer.hpp"

namespace py = pybind11;

namespace {

using dcgym::Balancer;

py::tuple test_balance(const Balancer &balancer, const py::bytes &packet) {
    const auto run = balancer.test_run(balancer.program(), packet, 1);
    return py::make_tuple(static_cast<int32_t>(run.verdict), py::bytes(run.packet));
}

uint32_t time_select(const Balancer &balancer, const py::bytes &packet, uint32_t repeat) {
    const auto run = balancer.test_run("l4lb_select", packet, repeat);
    if (run.verdict == DCGYM_NO_SERVER)
        dcgym::throw_config_error("packet", std::to_string(py::len(packet)) + " bytes",
                                  "one that a server gets");
    return run.mean_ns;
}

void set_timeouts(Balancer &balancer, uint64_t syn_ns, uint64_t tcp_ns, uint64_t udp_ns,
                  uint64_t closed_ns) {
    balancer.set_timeouts({syn_ns, tcp_ns, udp_ns, closed_ns});
}

} // namespace

void bind_balancer(py::module_ &module) {
    using dcgym::default_timeouts;
    module.attr("BALANCER_WAYS") = DCGYM_LB_WAYS;
    module.def("balancer_counters", &dcgym::balancer_counters, py::arg("counter_map_fd"),
               "What `Balancer.counters` returns, in whichever process holds the descriptor.");
    py::class_<Balancer>(module, "Balancer", "A layer-4 balancer in eBPF.")
        .def(py::init([](const std::string &object_path, const std::string &mac, uint32_t n_vips,
                         uint32_t flow_entries, uint64_t seed, bool collect,
                         uint64_t snapshot_interval_ns, const std::string &consistency,
                         const std::string &delivery, const std::string &hook,
                         const std::string &source_mac, const std::string &gateway_mac,
                         const std::vector<std::string> &tunnel_from, const std::string &pin_path,
                         uint64_t stream) {
                 return std::make_unique<Balancer>(
                     object_path,
                     dcgym::BalancerIdentity{mac, source_mac, gateway_mac, tunnel_from},
                     dcgym::BalancerSize{n_vips, flow_entries, seed, stream, collect,
                                         snapshot_interval_ns},
                     dcgym::BalancerMode{consistency, delivery, hook, pin_path});
             }),
             py::arg("object_path"), py::arg("mac"), py::arg("n_vips") = 1,
             py::arg("flow_entries") = 65536, py::arg("seed") = 0, py::arg("collect") = true,
             py::arg("snapshot_interval_ns") = 10'000'000, py::arg("consistency") = "table",
             py::arg("delivery") = "l2", py::arg("hook") = "tc", py::arg("source_mac") = "",
             py::arg("gateway_mac") = "", py::arg("tunnel_from") = std::vector<std::string>(),
             py::arg("pin_path") = "", py::arg("stream") = 0)
        .def("add_vip", &Balancer::add_vip, py::arg("vip"), py::arg("address"), py::arg("port"),
             py::arg("protocol") = "tcp",
             "Take packets to an address and port; a VIP may have several.")
        .def("set_servers", &Balancer::set_servers, py::arg("vip"), py::arg("macs"),
             py::arg("addresses") = std::map<uint32_t, std::vector<std::string>>(),
             "Say which MAC each server number has and, for tunnels, which addresses. A number "
             "that is left out or gets others loses its flows; only pools decide who takes new "
             "ones.")
        .def("set_timeouts", &set_timeouts, py::arg("syn_ns") = default_timeouts.syn_ns,
             py::arg("tcp_ns") = default_timeouts.tcp_ns,
             py::arg("udp_ns") = default_timeouts.udp_ns,
             py::arg("closed_ns") = default_timeouts.closed_ns,
             "Set how long after its last packet a flow is forgotten.")
        .def_property_readonly("pools", &Balancer::pools, "The `BalancerPools` of this process.")
        .def_property_readonly("region_map_fd", &Balancer::region_map_fd,
                               "Descriptor of the regions, one a VIP, to be mapped.")
        .def_property_readonly("counter_map_fd", &Balancer::counter_map_fd,
                               "Descriptor of the counters, for `balancer_counters`.")
        .def(
            "counters",
            [](const Balancer &balancer) {
                return dcgym::balancer_counters(balancer.counter_map_fd());
            },
            "Packets dropped by reason, and what else happened.")
        .def("clear", &Balancer::clear,
             "Forget flows, counters and samples, while no packets come; the rest stays.")
        .def(
            "attach",
            [](Balancer &balancer, uint32_t ifindex, uint32_t peer, int peer_namespace) {
                balancer.attach(ifindex, {peer, peer_namespace});
            },
            py::arg("ifindex"), py::arg("peer") = 0, py::arg("peer_namespace") = -1,
            "Balance what an interface of the caller's network namespace receives. At XDP's hooks "
            "name the other end of its veth pair, and that one's namespace if it is another.")
        .def(
            "check_path",
            [](const Balancer &balancer, uint32_t peer, int peer_namespace) {
                balancer.check_path({peer, peer_namespace});
            },
            py::arg("peer"), py::arg("peer_namespace") = -1,
            "Raise unless a frame that XDP sends arrives at the other end, as `attach` does.")
        .def("detach", &Balancer::detach, py::arg("ifindex"), "Undo `attach`; idempotent.")
        .def("test_balance", &test_balance, py::arg("packet"),
             "Run the hook's program on a packet: (verdict, packet left).")
        .def("time_select", &time_select, py::arg("packet"), py::arg("repeat"),
             "Mean time of the decision over many runs on a packet of a VIP, in ns; its flow is "
             "entered and counted.")
        .def("close", &Balancer::close, "Detach, and release programs and maps; idempotent.");
}
