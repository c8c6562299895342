// SPDX-License-Identifier: Apache-2.0
// The loaders of the balancer and of its part at servers, and the writer of pools, as Python sees
// them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>

#include "balancer.hpp"
#include "balancer_pools.hpp"
#include "common/bpf_object.hpp"
#include "load_reporter.hpp"
#include "probe_sender.hpp"

namespace py = pybind11;

namespace {

using dcgym::Balancer;
using dcgym::default_timeouts;

py::tuple test_balance(const Balancer &balancer, const py::bytes &packet) {
    const auto run = balancer.test_run(balancer.program(), packet, 1);
    return py::make_tuple(static_cast<int32_t>(run.verdict), py::bytes(run.packet));
}

uint32_t time_select(const Balancer &balancer, const py::bytes &packet, uint32_t repeat) {
    if (!balancer.times_select())
        dcgym::throw_config_error("times_select", "False", "True for a balancer that is timed");
    const auto run = balancer.test_run("l4lb_select", packet, repeat);
    if (run.verdict == DCGYM_NO_SERVER)
        dcgym::throw_config_error("packet", std::to_string(py::len(packet)) + " bytes",
                                  "one that a server gets");
    return run.mean_ns;
}

uint32_t time_report(const Balancer &balancer, const py::bytes &packet, uint32_t repeat) {
    if (!balancer.times_select())
        dcgym::throw_config_error("times_select", "False", "True for a balancer that is timed");
    return balancer.test_run("l4lb_select", packet, repeat).mean_ns;
}

void set_timeouts(Balancer &balancer, uint64_t syn_ns, uint64_t tcp_ns, uint64_t udp_ns,
                  uint64_t closed_ns, uint64_t half_closed_ns) {
    balancer.set_timeouts({syn_ns, tcp_ns, udp_ns, closed_ns, half_closed_ns});
}

void set_messages(Balancer &balancer, const std::string &address, uint32_t balancers,
                  double quantile, double probes, int64_t timeout_ns, uint64_t c3_reset_ns) {
    balancer.set_messages({address, balancers, {quantile, probes, timeout_ns}, c3_reset_ns});
}

void bind_constructor(py::class_<Balancer> &balancer) {
    balancer.def(
        py::init([](const std::string &object_path, const std::string &mac, uint32_t n_vips,
                    uint32_t flow_entries, uint64_t seed, bool collect,
                    uint64_t snapshot_interval_ns, const std::string &consistency,
                    const std::string &delivery, const std::string &hook,
                    const std::string &source_mac, const std::string &gateway_mac,
                    const std::vector<std::string> &tunnel_from, const std::string &pin_path,
                    uint64_t stream, bool times_select, bool devices, uint32_t further_macs) {
            return std::make_unique<Balancer>(
                object_path,
                dcgym::BalancerIdentity{.mac = mac,
                                        .further_macs = further_macs,
                                        .source_mac = source_mac,
                                        .gateway_mac = gateway_mac,
                                        .tunnel_from = tunnel_from},
                dcgym::BalancerSize{.vips = n_vips,
                                    .flow_entries = flow_entries,
                                    .seed = seed,
                                    .stream = stream,
                                    .collects = collect,
                                    .snapshot_interval_ns = snapshot_interval_ns,
                                    .devices = devices},
                dcgym::BalancerMode{.consistency = consistency,
                                    .delivery = delivery,
                                    .hook = hook,
                                    .pin_path = pin_path,
                                    .times_select = times_select});
        }),
        py::arg("object_path"), py::arg("mac"), py::kw_only(), py::arg("n_vips") = 1,
        py::arg("flow_entries") = 65536, py::arg("seed") = 0, py::arg("collect") = true,
        py::arg("snapshot_interval_ns") = 10'000'000, py::arg("consistency") = "table",
        py::arg("delivery") = "l2", py::arg("hook") = "tc", py::arg("source_mac") = "",
        py::arg("gateway_mac") = "", py::arg("tunnel_from") = std::vector<std::string>(),
        py::arg("pin_path") = "", py::arg("stream") = 0, py::arg("times_select") = false,
        py::arg("devices") = false, py::arg("further_macs") = 0);
}

void bind_settings(py::class_<Balancer> &balancer) {
    balancer
        .def("add_vip", &Balancer::add_vip, py::arg("vip"), py::arg("address"), py::arg("port"),
             py::arg("protocol") = "tcp",
             "Take packets to an address and port; a VIP may have several.")
        .def("set_servers", &Balancer::set_servers, py::arg("vip"), py::arg("macs"),
             py::arg("addresses") = std::map<uint32_t, std::vector<std::string>>(),
             "Say which MAC each server number has and, for tunnels, which addresses. A number "
             "that is left out or gets others loses its flows; only pools decide who takes new "
             "ones.")
        .def("set_accelerators", &Balancer::set_accelerators, py::arg("vip"), py::arg("server"),
             py::arg("macs"), py::arg("addresses") = std::map<uint32_t, std::vector<std::string>>(),
             "Say which MAC each accelerator of a server has, from number 1 on, and for tunnels "
             "which addresses. Its own MAC may report of it. A number that is left out or gets "
             "others loses its connections.")
        .def("set_agents", &Balancer::set_agents, py::arg("vip"), py::arg("server"),
             py::arg("macs"),
             "Let others than the devices themselves report of them, by the numbers of devices.")
        .def("set_timeouts", &set_timeouts, py::arg("syn_ns") = default_timeouts.syn_ns,
             py::arg("tcp_ns") = default_timeouts.tcp_ns,
             py::arg("udp_ns") = default_timeouts.udp_ns,
             py::arg("closed_ns") = default_timeouts.closed_ns,
             py::arg("half_closed_ns") = default_timeouts.half_closed_ns,
             "Set how long after its last packet a flow is forgotten.")
        .def("set_half_open_limit", &Balancer::set_half_open_limit, py::arg("limit"),
             "Let so many flows of each VIP count as ongoing from their first packet on.")
        .def("set_messages", &set_messages, py::arg("address"), py::arg("balancers") = 1,
             py::arg("quantile") = dcgym::PrequalConfig{}.quantile,
             py::arg("probes") = dcgym::PrequalConfig{}.probes,
             py::arg("timeout_ns") = dcgym::PrequalConfig{}.timeout_ns, py::arg("c3_reset_ns") = 0,
             "Take messages of servers to an IPv4 address of the balancer's own, and probe by "
             "Prequal's settings. A `ProbeSender` sends the probes. c3-rank forgets after each "
             "period of a reset; 0: never.")
        .def("clear", &Balancer::clear,
             "Forget flows, counters and samples, while no packets come; the rest stays.");
}

void bind_readings(py::class_<Balancer> &balancer) {
    balancer
        .def_property_readonly("pools", &Balancer::pools, "The `BalancerPools` of this process.")
        .def_property_readonly("devices", &Balancer::devices,
                               "The `BalancerDevices` of this process.")
        .def_property_readonly("device_map_fd", &Balancer::device_map_fd,
                               "Descriptor of what is known of devices, one block a VIP.")
        .def_property_readonly("region_map_fd", &Balancer::region_map_fd,
                               "Descriptor of the regions, one a VIP, to be mapped.")
        .def_property_readonly("counter_map_fd", &Balancer::counter_map_fd,
                               "Descriptor of the counters, for `balancer_counters`.")
        .def_property_readonly("probe_map_fd", &Balancer::probe_map_fd,
                               "Descriptor of the ring buffer of probes that are to be sent.")
        .def(
            "counters",
            [](const Balancer &balancer) {
                return dcgym::balancer_counters(balancer.counter_map_fd());
            },
            "Packets dropped by reason, and what else happened.");
}

void bind_hooks(py::class_<Balancer> &balancer) {
    balancer
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
        .def("detach", &Balancer::detach, py::arg("ifindex"), "Undo `attach`; idempotent.");
}

void bind_tests(py::class_<Balancer> &balancer) {
    balancer
        .def("test_balance", &test_balance, py::arg("packet"),
             "Run the hook's program on a packet: (verdict, packet left).")
        .def("time_select", &time_select, py::arg("packet"), py::arg("repeat"),
             "Mean time of the decision over many runs on a packet of a VIP, in ns; its flow is "
             "entered and counted. Only of a balancer that was made with `times_select`.")
        .def("time_report", &time_report, py::arg("packet"), py::arg("repeat"),
             "The same on a packet that no server gets, such as a report of a device.");
}

} // namespace

void bind_balancer(py::module_ &module) {
    module.attr("BALANCER_WAYS") = DCGYM_LB_WAYS;
    module.def("balancer_counters", &dcgym::balancer_counters, py::arg("counter_map_fd"),
               "What `Balancer.counters` returns, in whichever process holds the descriptor.");
    py::class_<Balancer> balancer(module, "Balancer", "A layer-4 balancer in eBPF.");
    bind_constructor(balancer);
    bind_settings(balancer);
    bind_readings(balancer);
    bind_hooks(balancer);
    bind_tests(balancer);
    balancer.def("close", &Balancer::close, "Detach, and release programs and maps; idempotent.");
}

namespace {

using dcgym::BalancerPools;
using Weights = py::array_t<double, py::array::c_style | py::array::forcecast>;

void replace(BalancerPools &pools, uint32_t vip, uint32_t rule, std::vector<uint16_t> servers,
             std::vector<double> weights) {
    pools.replace(vip, {rule, std::move(servers), std::move(weights)});
}

void set_weights(BalancerPools &pools, uint32_t vip, const Weights &weights) {
    if (weights.ndim() != 1)
        dcgym::throw_config_error("weights", std::to_string(weights.ndim()) + " dimensions",
                                  "one weight a server");
    pools.set_weights(vip, weights.data(), static_cast<size_t>(weights.size()));
}

} // namespace

void bind_balancer_pools(py::module_ &module) {
    py::class_<BalancerPools, std::shared_ptr<BalancerPools>>(
        module, "BalancerPools",
        "Writes a balancer's pools through mapped memory; one writer a balancer.")
        .def(py::init<int, uint32_t>(), py::arg("region_map_fd"), py::arg("n_vips"))
        .def("replace", &replace, py::arg("vip"), py::arg("rule"), py::arg("servers"),
             py::arg("weights"),
             "Name the servers that take new flows, the rule that chooses, a weight a server; in "
             "force whole with the next new flow. Existing flows stay where they are.")
        .def("set_rule", &BalancerPools::set_rule, py::arg("vip"), py::arg("rule"),
             "Choose by another rule of rules.h, by its number, from the next new flow on.")
        .def("set_weights", &set_weights, py::arg("vip"), py::arg("weights"),
             "Replace the weights, in the order of the pool's servers; only ratios count.");
}

namespace {

using dcgym::LoadReporter;

template <const char *program>
py::bytes test(const LoadReporter &reporter, const py::bytes &packet) {
    return reporter.test_run(program, packet).packet;
}

constexpr char ingress[] = "server_ingress", egress[] = "server_egress";

} // namespace

void bind_probe_sender(py::module_ &module) {
    using dcgym::ProbeSender;
    module.attr("MESSAGE_PORT") = DCGYM_MESSAGE_PORT;
    py::class_<ProbeSender>(module, "ProbeSender", "Sends the probes that a balancer asks for.")
        .def(py::init([](const Balancer &balancer, uint32_t ifindex, const std::string &mac,
                         const std::string &address,
                         const std::map<uint32_t, std::pair<std::string, std::string>> &servers) {
                 return std::make_unique<ProbeSender>(balancer.probe_map_fd(), ifindex,
                                                      dcgym::ProbeEnd{mac, address}, servers);
             }),
             py::arg("balancer"), py::arg("ifindex"), py::arg("mac"), py::arg("address"),
             py::arg("servers"),
             "Send from a MAC and IPv4 address by an interface of the caller's network namespace; "
             "`servers` has a MAC and an address for each number.")
        .def("close", &ProbeSender::close, py::call_guard<py::gil_scoped_release>(),
             "End the thread; idempotent.");
}

void bind_load_reporter(py::module_ &module) {
    module.def(
        "create_load_map", &dcgym::create_load_map, py::arg("n_servers"),
        "Create a map of loads, to be mapped: a row of 64 bytes a server, whose first 32-bit "
        "word is the number of flows there. Returns its descriptor, the caller's to close.");
    py::class_<LoadReporter>(module, "LoadReporter", "The balancer's part at a server.")
        .def(py::init([](const std::string &object_path, uint32_t server, int load_map_fd,
                         bool cookies, bool reports, std::vector<std::string> addresses,
                         int64_t epoch_ms) {
                 return std::make_unique<LoadReporter>(
                     object_path, server, load_map_fd,
                     dcgym::ReporterMode{cookies, reports, std::move(addresses), epoch_ms});
             }),
             py::arg("object_path"), py::arg("server"), py::arg("load_map_fd") = -1,
             py::arg("cookies") = true, py::arg("reports") = true,
             py::arg("addresses") = std::vector<std::string>(), py::arg("epoch_ms") = -1)
        .def("add_vip", &LoadReporter::add_vip, py::arg("address"), py::arg("port"),
             "Take part for a VIP's address and port of TCP.")
        .def("set_factor", &LoadReporter::set_factor, py::arg("factor"),
             "Tell so many times the flows there are; 1 is the truth.")
        .def_property_readonly("load_map_fd", &LoadReporter::load_map_fd,
                               "Descriptor of the map of loads.")
        .def_property_readonly("epoch_ms", &LoadReporter::epoch_ms,
                               "Where the timestamps' clock begins; one that takes over from "
                               "another must be given the other's.")
        .def("attach", &LoadReporter::attach, py::arg("ifindex"), py::arg("namespace_fd") = -1,
             "Take part on an interface of a network namespace, by default the caller's.")
        .def("test_ingress", &test<ingress>, py::arg("packet"),
             "Return what becomes of a packet that the server receives.")
        .def("test_egress", &test<egress>, py::arg("packet"),
             "Return what becomes of a packet that the server sends.")
        .def("close", &LoadReporter::close, "Detach, and release all; idempotent.");
}
