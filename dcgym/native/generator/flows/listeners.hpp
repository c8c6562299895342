// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/world.hpp"

namespace dcgym {

/// Receives the connection a sender has been waiting for.
class Accepts {
  public:
    virtual ~Accepts() = default;
    /// Takes the socket; inherited names the congestion control it has from its listener.
    virtual void accepted(Fd socket, const std::string &inherited) = 0;
};

/// A connection as its receiver sees it.
struct Connection {
    std::size_t host = 0;
    std::uint16_t port = 0;
    in_addr_t source_ip = 0;
    std::uint16_t source_port = 0;

    bool operator==(const Connection &) const = default;
};

struct ConnectionHash {
    std::size_t operator()(const Connection &connection) const;
};

/// The listening sockets of all hosts; hands every accepted connection to its sender's run.
class Listeners {
  public:
    explicit Listeners(World &world) : world_{world} {}

    void open(std::size_t host, std::uint16_t port, const std::string &congestion_control);
    void close();

    /// Announces that a run has opened a connection.
    void expect(const Connection &connection, std::weak_ptr<Accepts> run);
    void forget(const Connection &connection) { expected_.erase(connection); }

  private:
    struct Listener {
        asio::posix::stream_descriptor socket;
        std::size_t host;
        std::uint16_t port;
        std::string congestion_control;
    };

    void wait(std::uint64_t key);
    void accept_some(Listener &listener);
    void hand_over(const Listener &listener, Fd socket, const sockaddr_in &peer);

    World &world_;
    std::unordered_map<std::uint64_t, Listener> listeners_; /* by host and port */
    std::unordered_map<Connection, std::weak_ptr<Accepts>, ConnectionHash> expected_;
};

} // namespace dcgym
