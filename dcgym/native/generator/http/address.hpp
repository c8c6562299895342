// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dcgym {

/// An address and a port of either family.
class SocketAddress {
  public:
    SocketAddress() = default;
    /// Throws std::invalid_argument unless the text is a numeric IPv4 or IPv6 address.
    SocketAddress(const std::string &ip, std::uint16_t port);

    /// Every address of a namespace, of both families.
    static SocketAddress any(std::uint16_t port);
    /// The address of this end, or of the other end, of a socket.
    static SocketAddress local(int fd);
    static SocketAddress peer(int fd);

    int family() const { return storage_.ss_family; }
    const sockaddr *raw() const { return reinterpret_cast<const sockaddr *>(&storage_); }
    sockaddr *raw() { return reinterpret_cast<sockaddr *>(&storage_); }
    socklen_t length() const;
    /// As in the Host field of a request.
    std::string text() const;

    /// Equal for equal ends, also where an IPv4 address is written as an IPv6 one.
    using Key = std::array<std::uint8_t, 18>;
    Key key() const;

  private:
    sockaddr_storage storage_{};
};

struct AddressHash {
    std::size_t operator()(const SocketAddress::Key &key) const;
};

} // namespace dcgym
