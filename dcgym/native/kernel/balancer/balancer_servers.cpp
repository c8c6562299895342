// SPDX-License-Identifier: Apache-2.0
// The balancer's VIPs and the servers behind them.
#include <bpf/bpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "balancer.hpp"
#include "balancer_fields.hpp"

namespace dcgym {

void Balancer::add_vip(uint32_t vip, const std::string &address, uint16_t port,
                       const std::string &protocol) {
    check_range("vip", vip, 0, size_.vips - 1);
    dcgym_lb_vip_key key = parse_vip(address, port, protocol);
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

void Balancer::set_servers(uint32_t vip, const std::map<uint32_t, std::string> &macs,
                           const std::map<uint32_t, std::vector<std::string>> &addresses) {
    check_range("vip", vip, 0, size_.vips - 1);
    std::array<dcgym_lb_target, DCGYM_LB_SERVERS> wanted{};
    std::array<dcgym_lb_endpoint, DCGYM_LB_SERVERS> ends{};
    for (const auto &[server, mac] : macs) {
        check_range("server", server, 0, DCGYM_LB_SERVERS - 1);
        wanted[server] = target_of_mac(mac);
    }
    for (const auto &[server, ends_of] : addresses) {
        if (!macs.contains(server))
            throw_config_error("addresses", std::to_string(server), "servers that have a MAC");
        ends[server] = parse_endpoint("addresses", ends_of);
    }
    for (uint32_t server = 0; server < DCGYM_LB_SERVERS; server++) {
        set_server(index_of(vip, server, 0), wanted[server], ends[server]);
        if (size_.devices && !macs.contains(server))
            set_accelerators(vip, server, {}, {});
    }
}

void Balancer::set_messages(const BalancerMessages &messages) {
    const PrequalConfig &prequal = messages.prequal;
    if (!(prequal.quantile >= 0 && prequal.quantile <= 1))
        throw_config_error("quantile", std::to_string(prequal.quantile), "0 to 1");
    if (!(prequal.probes >= 0 && prequal.probes <= DCGYM_LB_SERVERS))
        throw_config_error("probes", std::to_string(prequal.probes),
                           "0 to " + std::to_string(DCGYM_LB_SERVERS));
    if (prequal.timeout_ns < 1)
        throw_config_error("timeout_ns", std::to_string(prequal.timeout_ns), "at least 1");
    check_range("balancers", messages.balancers, 1, UINT16_MAX);
    dcgym_lb_messages settings{};
    if (!messages.address.empty())
        settings.address = parse_endpoint("address", {messages.address}).ipv4;
    settings.balancers = messages.balancers;
    settings.probes = static_cast<uint32_t>(prequal.probes);
    settings.one_more =
        static_cast<uint32_t>(std::min((prequal.probes - settings.probes) * 0x1p32, 0x1p32 - 1));
    settings.timeout_ns = static_cast<uint64_t>(prequal.timeout_ns);
    settings.c3_reset_ns = messages.c3_reset_ns;
    settings.places = prequal.places();
    for (size_t n = 1; n <= DCGYM_LB_SERVERS; n++)
        settings.budgets[n] = prequal.budget(n);
    control().messages = settings;
}

// From 1 to the most that fits, and round again; 0 stands for nobody.
uint16_t Balancer::next_generation(uint32_t index) {
    const int generations = map_fd(object(), "generations");
    uint32_t last = 0;
    check(bpf_map_lookup_elem(generations, &index, &last), "cannot read a server");
    last = last % UINT16_MAX + 1;
    check(bpf_map_update_elem(generations, &index, &last, BPF_ANY), "cannot set a server");
    return static_cast<uint16_t>(last);
}

// The end of the tunnel is in place before the generation that makes it valid.
void Balancer::set_server(uint32_t index, dcgym_lb_target wanted, const dcgym_lb_endpoint &end) {
    const int targets = map_fd(object(), "targets"), tunnels = map_fd(object(), "tunnels");
    dcgym_lb_target had{};
    dcgym_lb_endpoint had_end{};
    check(bpf_map_lookup_elem(targets, &index, &had), "cannot read a server");
    check(bpf_map_lookup_elem(tunnels, &index, &had_end), "cannot read a server");
    if (word(had) == word(wanted) && std::memcmp(&had_end, &end, sizeof(end)) == 0)
        return;
    if (wanted.generation)
        wanted.generation = next_generation(index);
    check(bpf_map_update_elem(tunnels, &index, &end, BPF_ANY), "cannot set a server");
    check(bpf_map_update_elem(targets, &index, &wanted, BPF_ANY), "cannot set a server");
    if (size_.devices)
        set_agent(index, word(wanted));
}

} // namespace dcgym
