// SPDX-License-Identifier: Apache-2.0
#include "balancer_fields.hpp"

#include <arpa/inet.h>
#include <netinet/ether.h>

#include <cstring>

#include "common/bpf_object.hpp"

namespace dcgym {

static_assert(sizeof(dcgym_lb_vip_key) == 20);

uint64_t word(const dcgym_lb_target &target) {
    uint64_t result = 0;
    std::memcpy(&result, target.mac, sizeof(target.mac));
    return result;
}

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

dcgym_lb_endpoint parse_endpoint(const char *field, const std::vector<std::string> &addresses) {
    dcgym_lb_endpoint end{};
    for (const std::string &address : addresses)
        if (inet_pton(AF_INET, address.c_str(), &end.ipv4) != 1 &&
            inet_pton(AF_INET6, address.c_str(), end.ipv6) != 1)
            throw_config_error(field, address, "an IPv4 or IPv6 address");
    return end;
}

uint32_t parse_choice(const char *field, const std::string &text,
                      std::initializer_list<const char *> names) {
    uint32_t number = 0;
    std::string allowed;
    for (const char *name : names) {
        if (text == name)
            return number;
        allowed += (number++ ? ", " : "") + std::string(name);
    }
    throw_config_error(field, text, allowed);
}

dcgym_lb_vip_key parse_vip(const std::string &address, uint16_t port, const std::string &protocol) {
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

} // namespace dcgym
