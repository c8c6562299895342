// SPDX-License-Identifier: Apache-2.0
// Builds an emulated network: namespaces, veth pairs and addresses, by netlink in few passes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "netlink.hpp"

namespace dcgym {

using Mac = std::array<uint8_t, 6>;

struct Sysctl {
    std::string path, value;
};

// New network namespaces, as descriptors that keep them alive without a process. Their sysctls are
// set before any interface enters, so that a host is quiet from its first moment.
std::vector<int> make_namespaces(size_t count, const std::vector<Sysctl> &sysctls);

struct LinkEnd {
    int namespace_fd; // -1: that of the socket
    int ifindex;
    std::string name;
    Mac mac;
    uint64_t rate_bps; // full rate, for the largest offloaded packet; 0: the kernel's own limit
    uint32_t mtu;
};

// Makes veth pairs with both ends where they belong. Moving an interface later would cost an RCU
// grace period (synchronize_net) each. The ends are down: a queue is set up before traffic is.
void make_links(int rtnl_fd, const std::vector<std::pair<LinkEnd, LinkEnd>> &links);

void set_up(const std::vector<Interface> &interfaces);

// What a host needs to reach all others: its address, and one gateway that stands for every other
// host. Neighbour entries for each would be n^2, and dynamic ones share one small table of the
// machine (net.ipv4.neigh.default.gc_thresh3).
struct Address {
    uint8_t family; // AF_INET or AF_INET6
    std::array<uint8_t, 16> bytes;
    size_t size() const;
};

struct HostAddress {
    int rtnl_fd;
    int ifindex;
    Address address;
};

struct Gateway {
    Address address;
    Mac mac;
    Address network;
    uint8_t prefix_bits;
};

// All addresses are of one family.
void configure_hosts(const std::vector<HostAddress> &hosts, const Gateway &gateway);

} // namespace dcgym
