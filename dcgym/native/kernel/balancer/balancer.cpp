// SPDX-License-Identifier: Apache-2.0
#include "balancer.hpp"

#include <bpf/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "balancer_fields.hpp"
#include "common/namespaces.hpp"

namespace dcgym {
namespace {

constexpr const char *counter_names[] = {
    "",
#define DCGYM_ROW(symbol, name, ...) name,
#include "tables/balancer_counters.h"
};
static_assert(sizeof(dcgym_lb_target) == sizeof(uint64_t));

constexpr uint32_t most_flow_entries = 1U << 24;
constexpr uint32_t witnesses_an_entry = 4;
constexpr uint32_t least_witnessed = 1U << 16; // flows

// Zeroes an array map in one call.
void zero_map(const bpf_object *object, const char *name) {
    const bpf_map *map = find_map(object, name);
    uint32_t count = bpf_map__max_entries(map);
    std::vector<uint32_t> keys(count);
    std::iota(keys.begin(), keys.end(), 0U);
    const std::vector<std::byte> values(size_t{count} * bpf_map__value_size(map));
    check(bpf_map_update_batch(bpf_map__fd(map), keys.data(), values.data(), &count, nullptr),
          std::string("cannot clear the map ") + name);
}

} // namespace

Balancer::Balancer(const std::string &object_path, const BalancerIdentity &identity,
                   const BalancerSize &size, const BalancerMode &mode)
    : size_(size), tracks_(size.flow_entries > 0), times_select_(mode.times_select) {
    check_range("n_vips", size.vips, 1, DCGYM_LB_MAX_VIPS);
    check_range("snapshot_interval_ns", size.snapshot_interval_ns, 1'000'000, UINT64_MAX);
    if (size.flow_entries > 0 || mode.consistency == "table" || mode.consistency == "rule")
        check_range("flow_entries", size.flow_entries, DCGYM_LB_WAYS, most_flow_entries);
    size_.flow_entries = std::bit_ceil(std::max<uint32_t>(size.flow_entries, DCGYM_LB_WAYS));
    if (size.devices && mode.consistency != "table")
        throw_config_error("consistency", mode.consistency, "table, where servers have devices");
    const std::string bytes = read_object(object_path);
    object_ = open_object(bytes, object_path);
    resize_maps();
    set_constants(mode);
    set_hook(mode);
    if (!mode.pin_path.empty())
        pin_maps(mode.pin_path);
    check(bpf_object__load(object()), "cannot load the BPF object " + object_path);
    control_ =
        std::make_unique<Mapping>(map_fd(object(), ".bss.control"), sizeof(dcgym_lb_control), true);
    pools_ = std::make_shared<BalancerPools>(region_map_fd(), size_.vips);
    if (size_.devices)
        devices_ = std::make_shared<BalancerDevices>(device_map_fd(), size_.vips);
    set_identity(identity);
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
    const uint32_t servers = size_.vips * DCGYM_LB_SERVERS;
    const uint32_t targets = size_.devices ? servers * DCGYM_DEVICES : servers;
    const std::array<std::pair<const char *, uint32_t>, 12> sizes = {{
        {"vips", size_.vips * 2 * addresses_a_vip},
        {"targets", targets},
        {"tunnels", targets},
        {"generations", targets},
        {"agents", size_.devices ? targets : 1},
        {"devices", size_.devices ? size_.vips : 1},
        {"states", size_.vips},
        {"regions", size_.vips},
        {"pools", size_.vips},
        {"tolds", size_.vips},
        {"buckets", size_.flow_entries / DCGYM_LB_WAYS},
        {"witnesses", witnesses()},
    }};
    for (const auto &[name, entries] : sizes)
        size_map(object(), name, entries);
}

// Maps that are there already, of a balancer of the same sizes, are taken over.
void Balancer::pin_maps(const std::string &directory) {
    for (const char *name : {"targets", "tunnels", "generations", "agents", "devices", "states",
                             "regions", "buckets", "witnesses"}) {
        const std::string path = directory + "/" + name;
        check(bpf_map__set_pin_path(find_map(object(), name), path.c_str()),
              "cannot pin the map " + path);
    }
}

// A record of placements is kept of untracked flows too: it is how breaks are noticed.
uint32_t Balancer::witnesses() const {
    return std::max(size_.flow_entries, least_witnessed) * witnesses_an_entry;
}

void Balancer::set_constants(const BalancerMode &mode) {
    dcgym_lb_constants constants{};
    constants.seed = size_.seed;
    constants.n_vips = size_.vips;
    constants.bucket_mask = size_.flow_entries / DCGYM_LB_WAYS - 1;
    constants.witness_mask = witnesses() - 1;
    constants.collects = size_.collects;
    constants.consistency =
        parse_choice("consistency", mode.consistency, {"table", "cookie", "none", "rule"});
    constants.delivery = parse_choice("delivery", mode.delivery, {"l2", "ipip"});
    constants.devices = size_.devices;
    constants.tracks = tracks_ && constants.consistency != DCGYM_LB_BY_HASH;
    dcgym::set_constants(object(), constants);
}

// Programs that nobody asked for are not worth the verifier's time.
void Balancer::set_hook(const BalancerMode &mode) {
    at_xdp_ = parse_choice("hook", mode.hook, {"tc", "xdp"}) == 1;
    const std::array<std::pair<const char *, bool>, 4> asked = {{
        {"l4lb_balance", !at_xdp_},
        {"l4lb_xdp", at_xdp_},
        {"l4lb_pass", at_xdp_},
        {"l4lb_select", times_select_},
    }};
    for (const auto &[name, is_asked] : asked)
        bpf_program__set_autoload(bpf_object__find_program_by_name(object(), name), is_asked);
}

void Balancer::set_identity(const BalancerIdentity &identity) {
    const std::string &source = identity.source_mac.empty() ? identity.mac : identity.source_mac;
    check_range("further_macs", identity.further_macs, 0, DCGYM_LB_MAX_VIPS - 1);
    control().mac = word(parse_mac("mac", identity.mac));
    control().further_macs = identity.further_macs;
    control().source_mac = word(parse_mac("source_mac", source));
    if (!identity.gateway_mac.empty())
        control().gateway_mac = word(parse_mac("gateway_mac", identity.gateway_mac));
    control().tunnel_from = parse_endpoint("tunnel_from", identity.tunnel_from);
}

void Balancer::begin_state(uint32_t vip) {
    dcgym_lb_state state{};
    state.random = dcgym_mix(dcgym_mix(size_.stream) ^ (size_.seed + vip));
    check(bpf_map_update_elem(map_fd(object(), "states"), &vip, &state, BPF_ANY),
          "cannot set the state of a VIP");
}

void Balancer::start() {
    for (uint32_t vip = 0; vip < size_.vips; vip++) {
        dcgym_lb_region &region = pools_->region(vip);
        if (region.header.magic == DCGYM_LB_MAGIC) // taken over
            continue;
        begin_state(vip);
        region.header = {DCGYM_LB_MAGIC, DCGYM_LB_VERSION, DCGYM_LB_SERVERS, 0, 0};
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
    zero_map(object(), "tolds");
    clear_devices();
    const Mapping record(map_fd(object(), "witnesses"), witnesses() * sizeof(uint64_t), true);
    std::memset(record.data(), 0, record.size());
    for (uint32_t vip = 0; vip < size_.vips; vip++) {
        begin_state(vip);
        dcgym_lb_region &region = pools_->region(vip);
        std::memset(&region.interarrival, 0, sizeof(region.interarrival));
        std::memset(region.samples, 0, sizeof(region.samples));
    }
    const std::vector<uint64_t> zeros(check(libbpf_num_possible_cpus(), "cannot count CPUs"));
    for (uint32_t number = 0; number < DCGYM_LB_COUNTERS; number++)
        check(bpf_map_update_elem(counter_map_fd(), &number, zeros.data(), BPF_ANY),
              "cannot clear the counters");
}

void Balancer::set_timeouts(const BalancerTimeouts &timeouts) {
    control().syn_timeout_ns = timeouts.syn_ns;
    control().tcp_timeout_ns = timeouts.tcp_ns;
    control().udp_timeout_ns = timeouts.udp_ns;
    control().closed_timeout_ns = timeouts.closed_ns;
    control().half_closed_timeout_ns = timeouts.half_closed_ns;
}

void Balancer::set_half_open_limit(uint64_t limit) {
    control().half_open_limit = limit;
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

// The interface's index names what is to be detached together.
void Balancer::link(uint32_t ifindex, const char *program, int where, uint32_t owner,
                    int namespace_fd) {
    const int descriptor = program_fd(object(), program);
    LIBBPF_OPTS(bpf_link_create_opts, options);
    if (where == BPF_XDP)
        options.flags = XDP_FLAGS_DRV_MODE; // generic XDP misses what tc redirects
    int made = -1;
    in_namespace(namespace_fd, [&] {
        made = bpf_link_create(descriptor, static_cast<int>(ifindex),
                               static_cast<bpf_attach_type>(where), &options);
    });
    check(made, std::string("cannot attach ") + program + " to interface " +
                    std::to_string(ifindex) +
                    (where == BPF_XDP ? "" : " (a tcx link needs Linux 6.6)"));
    attached_.emplace(owner, made);
}

void Balancer::attach(uint32_t ifindex, const Peer &peer) {
    if (!at_xdp_)
        return link(ifindex, "l4lb_balance", tcx_ingress, ifindex, -1);
    check_range("peer", peer.ifindex, 1, INT32_MAX);
    link(ifindex, "l4lb_xdp", BPF_XDP, ifindex, -1);
    try {
        link(peer.ifindex, "l4lb_pass", BPF_XDP, ifindex, peer.namespace_fd);
        check_path(peer);
    } catch (...) {
        detach(ifindex);
        throw;
    }
}

void Balancer::check_path(const Peer &peer) const {
    check(probe_from(peer),
          "no frame that the balancer sends arrives at interface " + std::to_string(peer.ifindex));
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
    devices_.reset();
    control_.reset();
    object_.reset();
}

} // namespace dcgym
