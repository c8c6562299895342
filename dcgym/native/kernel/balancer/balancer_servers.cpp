// SPDX-License-Identifier: Apache-2.0
// The balancer's VIPs and the servers behind them.
#include <bpf/bpf.h>

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
        wanted[server] = parse_mac("mac", mac);
        if (word(wanted[server]) == control().mac || word(wanted[server]) == control().source_mac)
            throw_config_error("mac", mac, "another MAC than the balancer's");
        wanted[server].generation = 1;
    }
    for (const auto &[server, ends_of] : addresses) {
        if (!macs.contains(server))
            throw_config_error("addresses", std::to_string(server), "servers that have a MAC");
        ends[server] = parse_endpoint("addresses", ends_of);
    }
    for (uint32_t server = 0; server < DCGYM_LB_SERVERS; server++)
        set_server(vip * DCGYM_LB_SERVERS + server, wanted[server], ends[server]);
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
}

} // namespace dcgym
