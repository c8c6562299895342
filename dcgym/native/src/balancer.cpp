// SPDX-License-Identifier: Apache-2.0
#include "balancer.hpp"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <netinet/ether.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace dcgym {
namespace {

constexpr std::array<const char *, DCGYM_LB_COUNTERS> counter_names = {
    "",          "truncated", "malformed", "fragment", "extension", "unknown_port",
    "no_server", "pool_busy", "missed",    "evicted",  "broken",
};
static_assert(sizeof(dcgym_lb_target) == sizeof(uint64_t));
static_assert(sizeof(dcgym_lb_vip_key) == 20);

// BPF_TCX_INGRESS, which the headers of older systems lack.
constexpr auto tcx_ingress = static_cast<bpf_attach_type>(46);
constexpr uint32_t most_flow_entries = 1U << 24;
constexpr uint32_t addresses_a_vip = 16; // pairs of address and port
constexpr uint32_t witnesses_an_entry = 4;
constexpr BalancerTimeouts default_timeouts = {5'000'000'000, 300'000'000'000, 30'000'000'000,
                                               2'000'000'000};

void check_range(const char *field, uint64_t value, uint64_t least, uint64_t most) {
    if (value < least || value > most)
        throw_config_error(field, std::to_string(value),
                           std::to_string(least) + " to " + std::to_string(most));
}

dcgym_lb_target parse_mac(const char *field, const std::string &text) {
    dcgym_lb_target target{};
    ether_addr address{};
    if (ether_aton_r(text.c_str(), &address) == nullptr)
        throw_config_error(field, text, "a MAC address such as 02:dc:00:00:00:05");
    if (address.ether_addr_octet[0] & 1)
        throw_config_error(field, text, "the MAC address of one interface, no group's");
    std::memcpy(target.mac, address.ether_addr_octet, sizeof(target.mac));
    return target;
}

// 0 stands for nobody.
uint16_t next_generation(uint16_t &generation) {
    generation = generation == UINT16_MAX ? 1 : generation + 1;
    return generation;
}

uint64_t word(const dcgym_lb_target &target) {
    uint64_t result = 0;
    std::memcpy(&result, target.mac, sizeof(target.mac));
    return result;
}

dcgym_lb_vip_key vip_key(const std::string &address, uint16_t port, const std::string &protocol) {
    dcgym_lb_vip_key key{};
    if (inet_pton(AF_INET, address.c_str(), key.address) == 1)
        key.version = 4;
    else if (inet_pton(AF_INET6, address.c_str(), key.address) == 1)
        key.version = 6;
    else
        throw_config_error("address", address, "an IPv4 or IPv6 address");
    if (protocol != "tcp" && protocol != "udp")
        throw_config_error("protocol", protocol, "tcp or udp");
    check_range("port", port, 1, UINT16_MAX);
    key.port = htons(port);
    key.protocol = protocol == "tcp" ? IPPROTO_TCP : IPPROTO_UDP;
    return key;
}

// Zeroes an array map in one call.
void zero_map(const bpf_object *object, const char *name) {
    const bpf_map *map = bpf_object__find_map_by_name(object, name);
    uint32_t count = bpf_map__max_entries(map);
    std::vector<uint32_t> keys(count);
    std::iota(keys.begin(), keys.end(), 0U);
    const std::vector<std::byte> values(size_t{count} * bpf_map__value_size(map));
    check(bpf_map_update_batch(bpf_map__fd(map), keys.data(), values.data(), &count, nullptr),
          std::string("cannot clear the map ") + name);
}

} // namespace

Balancer::Balancer(const std::string &object_path, const std::string &mac, const BalancerSize &size)
    : size_(size) {
    check_range("n_vips", size.vips, 1, DCGYM_LB_MAX_VIPS);
    check_range("flow_entries", size.flow_entries, DCGYM_LB_WAYS, most_flow_entries);
    check_range("snapshot_interval_ns", size.snapshot_interval_ns, 1'000'000, UINT64_MAX);
    size_.flow_entries = std::bit_ceil(size.flow_entries);
    const dcgym_lb_target own = parse_mac("mac", mac);
    const std::string bytes = read_object(object_path);
    object_ = open_object(bytes, object_path);
    resize_maps();
    set_constants();
    check(bpf_object__load(object()), "cannot load the BPF object " + object_path);
    control_ =
        std::make_unique<Mapping>(map_fd(object(), ".bss.control"), sizeof(dcgym_lb_control), true);
    pools_ = std::make_shared<BalancerPools>(region_map_fd(), size_.vips);
    control().mac = word(own);
    control().snapshot_interval_ns = size_.snapshot_interval_ns;
    set_timeouts(default_timeouts);
    start();
}

bpf_object *Balancer::object() const {
    if (!object_)
        throw_backend_error("the balancer is closed", EBADF);
    return object_.get();
}

dcgym_lb_control &Balancer::control() const {
    object();
    return *reinterpret_cast<dcgym_lb_control *>(control_->data());
}

std::shared_ptr<BalancerPools> Balancer::pools() const {
    object();
    return pools_;
}

void Balancer::resize_maps() {
    const std::array<std::pair<const char *, uint32_t>, 7> sizes = {{
        {"vips", size_.vips * 2 * addresses_a_vip},
        {"targets", size_.vips * DCGYM_LB_SERVERS},
        {"states", size_.vips},
        {"regions", size_.vips},
        {"pools", size_.vips},
        {"buckets", size_.flow_entries / DCGYM_LB_WAYS},
        {"witnesses", size_.flow_entries * witnesses_an_entry},
    }};
    for (const auto &[name, entries] : sizes) {
        bpf_map *map = bpf_object__find_map_by_name(object(), name);
        check(bpf_map__set_max_entries(map, entries), std::string("cannot size the map ") + name);
    }
}

void Balancer::set_constants() {
    const dcgym_lb_constants constants{size_.seed, size_.vips,
                                       size_.flow_entries / DCGYM_LB_WAYS - 1,
                                       size_.flow_entries * witnesses_an_entry - 1, size_.collects};
    bpf_map *rodata = bpf_object__find_map_by_name(object(), ".rodata");
    check(bpf_map__set_initial_value(rodata, &constants, sizeof(constants)),
          "cannot set the balancer's constants");
}

void Balancer::begin_states() {
    for (uint32_t vip = 0; vip < size_.vips; vip++) {
        dcgym_lb_state state{};
        state.random = dcgym_mix(size_.seed + vip);
        check(bpf_map_update_elem(map_fd(object(), "states"), &vip, &state, BPF_ANY),
              "cannot set the state of a VIP");
    }
}

void Balancer::start() {
    begin_states();
    for (uint32_t vip = 0; vip < size_.vips; vip++) {
        pools_->region(vip).header = {DCGYM_LB_MAGIC, DCGYM_LB_VERSION, DCGYM_LB_SERVERS, 0, 0};
        pools_->replace(vip, {});
    }
    const TestRun run =
        run_on_packet(program_fd(object(), "l4lb_start"), std::string(ETH_HLEN, '\0'), 0, 1);
    check(static_cast<int>(run.verdict), "cannot start the balancer's timer");
}

// The flow table first: the timer, which goes on, would take the flows that it clears off counters
// that are 0 already.
void Balancer::clear() {
    zero_map(object(), "buckets");
    zero_map(object(), "witnesses");
    begin_states();
    for (uint32_t vip = 0; vip < size_.vips; vip++) {
        dcgym_lb_region &region = pools_->region(vip);
        std::memset(&region.interarrival, 0, sizeof(region.interarrival));
        std::memset(region.samples, 0, sizeof(region.samples));
    }
    const std::vector<uint64_t> zeros(check(libbpf_num_possible_cpus(), "cannot count CPUs"));
    for (uint32_t number = 0; number < DCGYM_LB_COUNTERS; number++)
        check(bpf_map_update_elem(counter_map_fd(), &number, zeros.data(), BPF_ANY),
              "cannot clear the counters");
}

void Balancer::add_vip(uint32_t vip, const std::string &address, uint16_t port,
                       const std::string &protocol) {
    check_range("vip", vip, 0, size_.vips - 1);
    dcgym_lb_vip_key key = vip_key(address, port, protocol);
    const int descriptor = map_fd(object(), "vips");
    const int added = bpf_map_update_elem(descriptor, &key, &vip, BPF_NOEXIST);
    if (added == -EEXIST)
        throw_config_error("address", address + " " + protocol + " " + std::to_string(port),
                           "an address and port that no VIP has");
    if (added == -E2BIG)
        throw_config_error("address", address,
                           std::to_string(addresses_a_vip) + " ports a VIP at most");
    check(added, "cannot add the VIP");
    const uint32_t no_port = DCGYM_LB_NO_PORT;
    key.port = 0;
    key.protocol = 0;
    check(bpf_map_update_elem(descriptor, &key, &no_port, BPF_ANY), "cannot add the VIP");
}

void Balancer::set_servers(uint32_t vip, const std::map<uint32_t, std::string> &macs) {
    check_range("vip", vip, 0, size_.vips - 1);
    std::array<dcgym_lb_target, DCGYM_LB_SERVERS> wanted{};
    for (const auto &[server, mac] : macs) {
        check_range("server", server, 0, DCGYM_LB_SERVERS - 1);
        wanted[server] = parse_mac("mac", mac);
        if (word(wanted[server]) == control().mac)
            throw_config_error("mac", mac, "another MAC than the balancer's");
    }
    const int descriptor = map_fd(object(), "targets");
    for (uint32_t server = 0; server < DCGYM_LB_SERVERS; server++) {
        const uint32_t index = vip * DCGYM_LB_SERVERS + server;
        dcgym_lb_target had{};
        check(bpf_map_lookup_elem(descriptor, &index, &had), "cannot read a server");
        if (word(had) == word(wanted[server]))
            continue;
        if (macs.contains(server))
            wanted[server].generation = next_generation(generations_[index]);
        check(bpf_map_update_elem(descriptor, &index, &wanted[server], BPF_ANY),
              "cannot set a server");
    }
}

void Balancer::set_timeouts(const BalancerTimeouts &timeouts) {
    control().syn_timeout_ns = timeouts.syn_ns;
    control().tcp_timeout_ns = timeouts.tcp_ns;
    control().udp_timeout_ns = timeouts.udp_ns;
    control().closed_timeout_ns = timeouts.closed_ns;
}

std::map<std::string, uint64_t> balancer_counters(int counter_map_fd) {
    std::vector<uint64_t> per_cpu(check(libbpf_num_possible_cpus(), "cannot count CPUs"));
    std::map<std::string, uint64_t> result;
    for (uint32_t number = DCGYM_LB_DROP_TRUNCATED; number < DCGYM_LB_COUNTERS; number++) {
        check(bpf_map_lookup_elem(counter_map_fd, &number, per_cpu.data()), "cannot read counters");
        result[counter_names[number]] =
            std::accumulate(per_cpu.begin(), per_cpu.end(), uint64_t{0});
    }
    return result;
}

void Balancer::attach(uint32_t ifindex) {
    const int program = program_fd(object(), "l4lb_balance");
    const int link = bpf_link_create(program, static_cast<int>(ifindex), tcx_ingress, nullptr);
    check(link, "cannot attach the balancer to interface " + std::to_string(ifindex) +
                    " (a tcx link needs Linux 6.6)");
    attached_.emplace(ifindex, link);
}

void Balancer::detach(uint32_t ifindex) {
    attached_.erase(ifindex);
}

TestRun Balancer::test_run(const char *program, const std::string &packet, uint32_t repeat) const {
    return run_on_packet(program_fd(object(), program), packet, 0, repeat);
}

void Balancer::close() {
    attached_.clear();
    pools_.reset();
    control_.reset();
    object_.reset();
}

} // namespace dcgym

namespace {

using dcgym::Balancer;

py::tuple test_balance(const Balancer &balancer, const py::bytes &packet) {
    const auto run = balancer.test_run("l4lb_balance", packet, 1);
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
                         uint64_t snapshot_interval_ns) {
                 return std::make_unique<Balancer>(object_path, mac,
                                                   dcgym::BalancerSize{n_vips, flow_entries, seed,
                                                                       collect,
                                                                       snapshot_interval_ns});
             }),
             py::arg("object_path"), py::arg("mac"), py::arg("n_vips") = 1,
             py::arg("flow_entries") = 65536, py::arg("seed") = 0, py::arg("collect") = true,
             py::arg("snapshot_interval_ns") = 10'000'000)
        .def("add_vip", &Balancer::add_vip, py::arg("vip"), py::arg("address"), py::arg("port"),
             py::arg("protocol") = "tcp",
             "Take packets to an address and port; a VIP may have several.")
        .def("set_servers", &Balancer::set_servers, py::arg("vip"), py::arg("macs"),
             "Say which MAC each server number has. A number that is left out or gets another "
             "MAC loses its flows; only pools decide who takes new ones.")
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
        .def("attach", &Balancer::attach, py::arg("ifindex"),
             "Balance what an interface of the caller's network namespace receives.")
        .def("detach", &Balancer::detach, py::arg("ifindex"), "Undo `attach`; idempotent.")
        .def("test_balance", &test_balance, py::arg("packet"),
             "Run the program on a packet: (verdict, packet left).")
        .def("time_select", &time_select, py::arg("packet"), py::arg("repeat"),
             "Mean time of the decision over many runs on a packet of a VIP, in ns; its flow is "
             "entered and counted.")
        .def("close", &Balancer::close, "Detach, and release programs and maps; idempotent.");
}
