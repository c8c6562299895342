// SPDX-License-Identifier: Apache-2.0
#include "address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <stdexcept>
#include <string_view>

namespace dcgym {
namespace {

constexpr std::size_t kMappedAt = 12; /* of an IPv4 address in ::ffff:0:0/96 */

} // namespace

SocketAddress::SocketAddress(const std::string &ip, std::uint16_t port) {
    auto *v4 = reinterpret_cast<sockaddr_in *>(&storage_);
    auto *v6 = reinterpret_cast<sockaddr_in6 *>(&storage_);
    if (inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
    } else if (inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
    } else {
        throw std::invalid_argument("not an IPv4 or IPv6 address: " + ip);
    }
}

SocketAddress SocketAddress::any(std::uint16_t port) {
    return {"::", port};
}

SocketAddress SocketAddress::local(int fd) {
    SocketAddress found;
    socklen_t length = sizeof(found.storage_);
    getsockname(fd, found.raw(), &length);
    return found;
}

SocketAddress SocketAddress::peer(int fd) {
    SocketAddress found;
    socklen_t length = sizeof(found.storage_);
    getpeername(fd, found.raw(), &length);
    return found;
}

socklen_t SocketAddress::length() const {
    return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::string SocketAddress::text() const {
    char ip[INET6_ADDRSTRLEN] = "";
    if (family() == AF_INET) {
        const auto *v4 = reinterpret_cast<const sockaddr_in *>(&storage_);
        inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof(ip));
        return std::string{ip} + ":" + std::to_string(ntohs(v4->sin_port));
    }
    const auto *v6 = reinterpret_cast<const sockaddr_in6 *>(&storage_);
    inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof(ip));
    return "[" + std::string{ip} + "]:" + std::to_string(ntohs(v6->sin6_port));
}

SocketAddress::Key SocketAddress::key() const {
    Key key{};
    if (family() == AF_INET) {
        const auto *v4 = reinterpret_cast<const sockaddr_in *>(&storage_);
        key[kMappedAt - 2] = key[kMappedAt - 1] = 0xff;
        std::memcpy(key.data() + kMappedAt, &v4->sin_addr, sizeof(v4->sin_addr));
        std::memcpy(key.data() + 16, &v4->sin_port, sizeof(v4->sin_port));
    } else {
        const auto *v6 = reinterpret_cast<const sockaddr_in6 *>(&storage_);
        std::memcpy(key.data(), &v6->sin6_addr, sizeof(v6->sin6_addr));
        std::memcpy(key.data() + 16, &v6->sin6_port, sizeof(v6->sin6_port));
    }
    return key;
}

std::size_t AddressHash::operator()(const SocketAddress::Key &key) const {
    const std::string_view bytes{reinterpret_cast<const char *>(key.data()), key.size()};
    return std::hash<std::string_view>{}(bytes);
}

} // namespace dcgym
