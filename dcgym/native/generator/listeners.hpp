// SPDX-License-Identifier: MIT
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "flow.hpp"

namespace dcgym {

/// Receives the connection a sender has been waiting for.
class Accepts {
  public:
    virtual ~Accepts() = default;
    virtual void accepted(Fd socket) = 0;
};

/// The listening sockets of all hosts; hands every accepted connection to its sender's run.
class Listeners {
  public:
    explicit Listeners(World &world) : world_{world} {}

    void open(std::size_t host, std::uint16_t port, const std::string &congestion_control);
    void close();

    /// Announces that `run` has connected from source_ip:source_port to a listener.
    void expect(in_addr_t source_ip, std::uint16_t source_port, std::size_t host,
                std::uint16_t port, std::weak_ptr<Accepts> run);

  private:
    using Place = std::pair<std::size_t, std::uint16_t>;
    using Origin = std::pair<in_addr_t, std::uint16_t>;

    void wait(const Place &place);
    void accept_all(const Place &place, int listener);
    void hand_over(const Place &place, Fd socket, const Origin &origin);

    World &world_;
    std::map<Place, asio::posix::stream_descriptor> listeners_;
    std::map<std::pair<Place, Origin>, std::weak_ptr<Accepts>> expected_;
};

/// Chooses the congestion control of a socket; an empty name keeps the host's default.
void set_congestion_control(int fd, const std::string &name);

/// Makes the coming close() drop the connection at once, without TIME_WAIT.
void set_abortive_close(int fd);

} // namespace dcgym
