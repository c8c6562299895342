// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <unordered_map>

#include "address.hpp"

namespace dcgym {

/// What a server tells about a connection that one of our own clients opened.
class Greeted {
  public:
    virtual ~Greeted() = default;
    virtual void accepted_by(std::size_t server) = 0;
    /// The server is about to reset the connection, because its backlog is full.
    virtual void rejected_by(std::size_t server) = 0;
    /// The server that took the connection is about to reset it.
    virtual void lost_by(std::size_t server) = 0;
};

/// The connections that our own clients have open, by the address and port of their client.
///
/// On the wire, a connection that its own server reset looks like one that reached a wrong server.
class ConnectionRegistry {
  public:
    void add(const SocketAddress::Key &client, Greeted &connection) {
        connections_[client] = &connection;
    }
    void remove(const SocketAddress::Key &client, const Greeted &connection) {
        const auto found = connections_.find(client);
        if (found != connections_.end() && found->second == &connection)
            connections_.erase(found);
    }
    Greeted *find(const SocketAddress::Key &client) const {
        const auto found = connections_.find(client);
        return found == connections_.end() ? nullptr : found->second;
    }

  private:
    std::unordered_map<SocketAddress::Key, Greeted *, AddressHash> connections_;
};

} // namespace dcgym
