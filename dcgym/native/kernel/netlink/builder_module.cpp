// SPDX-License-Identifier: Apache-2.0
// Python face of builder.hpp: plain tuples in, descriptors out.
#include <arpa/inet.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdio>
#include <tuple>

#include "builder.hpp"

namespace py = pybind11;
using namespace dcgym;

namespace {

using End = std::tuple<int, int, std::string, std::string, uint64_t, uint32_t>;
using Host = std::tuple<int, int, std::string>;

Address parse_ip(const std::string &text) {
    Address address{};
    for (const uint8_t family : {AF_INET, AF_INET6}) {
        address.family = family;
        if (inet_pton(family, text.c_str(), address.bytes.data()) == 1)
            return address;
    }
    throw py::value_error("not an IP address: " + text);
}

Mac parse_mac(const std::string &text) {
    Mac mac{};
    if (sscanf(text.c_str(), "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &mac[0], &mac[1], &mac[2],
               &mac[3], &mac[4], &mac[5]) != 6)
        throw py::value_error("not a MAC address: " + text);
    return mac;
}

LinkEnd parse_end(const End &end) {
    const auto &[namespace_fd, ifindex, name, mac, rate_bps, mtu] = end;
    return {namespace_fd, ifindex, name, parse_mac(mac), rate_bps, mtu};
}

std::vector<int> namespaces(size_t count,
                            const std::vector<std::pair<std::string, std::string>> &settings) {
    std::vector<Sysctl> sysctls;
    for (const auto &[path, value] : settings)
        sysctls.push_back({path, value});
    const py::gil_scoped_release released;
    return make_namespaces(count, sysctls);
}

void links(int rtnl_fd, const std::vector<std::pair<End, End>> &pairs) {
    std::vector<std::pair<LinkEnd, LinkEnd>> parsed;
    for (const auto &[a, b] : pairs)
        parsed.emplace_back(parse_end(a), parse_end(b));
    const py::gil_scoped_release released;
    make_links(rtnl_fd, parsed);
}

void up(const std::vector<std::pair<int, int>> &pairs) {
    std::vector<Interface> interfaces;
    for (const auto &[rtnl_fd, ifindex] : pairs)
        interfaces.push_back({rtnl_fd, ifindex});
    const py::gil_scoped_release released;
    set_up(interfaces);
}

void hosts(const std::vector<Host> &rows, const std::string &gateway_ip,
           const std::string &gateway_mac, const std::string &network, uint8_t prefix_bits) {
    std::vector<HostAddress> parsed;
    for (const auto &[rtnl_fd, ifindex, ip] : rows)
        parsed.push_back({rtnl_fd, ifindex, parse_ip(ip)});
    const Gateway gateway{parse_ip(gateway_ip), parse_mac(gateway_mac), parse_ip(network),
                          prefix_bits};
    const py::gil_scoped_release released;
    configure_hosts(parsed, gateway);
}

} // namespace

void bind_builder(py::module_ &module) {
    module.def("make_namespaces", &namespaces, py::arg("count"), py::arg("sysctls"),
               "New network namespaces without a process: descriptors that keep them alive.");
    module.def("make_links", &links, py::arg("rtnl_fd"), py::arg("pairs"),
               "Make veth pairs, down; an end is (namespace descriptor or -1, ifindex, name, MAC, "
               "full rate in bit/s, MTU in bytes).");
    module.def("set_up", &up, py::arg("interfaces"),
               "Bring up interfaces given as (socket, ifindex).");
    module.def("configure_hosts", &hosts, py::arg("hosts"), py::arg("gateway_ip"),
               py::arg("gateway_mac"), py::arg("network"), py::arg("prefix_bits"),
               "Give hosts (socket, ifindex, IP address) their address and a route by the gateway, "
               "all of one family.");
}
