// SPDX-License-Identifier: Apache-2.0
// The accelerators of a balancer's servers, and who may report of them.
#include <bpf/bpf.h>

#include <array>
#include <cstring>

#include "balancer.hpp"
#include "balancer_fields.hpp"

namespace dcgym {

void Balancer::check_devices() const {
    object();
    if (!size_.devices)
        throw_config_error("devices", "False", "True for a balancer whose servers have devices");
}

std::shared_ptr<BalancerDevices> Balancer::devices() const {
    check_devices();
    return devices_;
}

// As target_index of the program.
uint32_t Balancer::index_of(uint32_t vip, uint32_t server, uint32_t device) const {
    const uint32_t index = vip * DCGYM_LB_SERVERS + server;
    return size_.devices ? index * DCGYM_DEVICES + device : index;
}

dcgym_lb_target Balancer::target_of_mac(const std::string &mac) const {
    dcgym_lb_target target = parse_mac("mac", mac);
    if (word(target) == control().mac || word(target) == control().source_mac)
        throw_config_error("mac", mac, "another MAC than the balancer's");
    target.generation = 1;
    return target;
}

void Balancer::set_accelerators(uint32_t vip, uint32_t server,
                                const std::map<uint32_t, std::string> &macs,
                                const std::map<uint32_t, std::vector<std::string>> &addresses) {
    check_devices();
    check_range("vip", vip, 0, size_.vips - 1);
    check_range("server", server, 0, DCGYM_LB_SERVERS - 1);
    std::array<dcgym_lb_target, DCGYM_DEVICES> wanted{};
    std::array<dcgym_lb_endpoint, DCGYM_DEVICES> ends{};
    for (const auto &[device, mac] : macs) {
        check_range("device", device, 1, DCGYM_DEVICES - 1);
        wanted[device] = target_of_mac(mac);
    }
    for (const auto &[device, ends_of] : addresses) {
        if (!macs.contains(device))
            throw_config_error("addresses", std::to_string(device), "devices that have a MAC");
        ends[device] = parse_endpoint("addresses", ends_of);
    }
    for (uint32_t device = 1; device < DCGYM_DEVICES; device++)
        set_server(index_of(vip, server, device), wanted[device], ends[device]);
}

void Balancer::set_agents(uint32_t vip, uint32_t server,
                          const std::map<uint32_t, std::string> &macs) {
    check_devices();
    check_range("vip", vip, 0, size_.vips - 1);
    check_range("server", server, 0, DCGYM_LB_SERVERS - 1);
    std::map<uint32_t, uint64_t> agents;
    for (const auto &[device, mac] : macs) {
        check_range("device", device, 0, DCGYM_DEVICES - 1);
        agents[index_of(vip, server, device)] = word(parse_mac("mac", mac));
    }
    for (const auto &[index, mac] : agents) {
        dcgym_lb_target target{};
        check(bpf_map_lookup_elem(map_fd(object(), "targets"), &index, &target),
              "cannot read a device");
        if (target.generation == 0)
            throw_config_error("device", std::to_string(index % DCGYM_DEVICES),
                               "a device that has a MAC");
        set_agent(index, mac);
    }
}

// 0: there is no such device.
void Balancer::set_agent(uint32_t index, uint64_t mac) {
    check(bpf_map_update_elem(map_fd(object(), "agents"), &index, &mac, BPF_ANY),
          "cannot set an agent");
}

void Balancer::clear_devices() {
    for (uint32_t vip = 0; devices_ && vip < size_.vips; vip++)
        std::memset(devices_->devices(vip).servers, 0, sizeof(dcgym_lb_devices::servers));
}

} // namespace dcgym
