// SPDX-License-Identifier: Apache-2.0
#include "listeners.hpp"

#include <sys/socket.h>

#include <functional>
#include <utility>

#include "core/socket_options.hpp"

namespace dcgym {
namespace {

constexpr int kBacklog = 4096;
/* A short flow that is repeated for ever has its next connection ready each time. */
constexpr int kAcceptsAtOnce = 64;

} // namespace

std::size_t ConnectionHash::operator()(const Connection &connection) const {
    const std::uint64_t receiver = std::uint64_t{connection.host} << 16 | connection.port;
    const std::uint64_t sender = std::uint64_t{connection.source_ip} << 16 | connection.source_port;
    return std::hash<std::uint64_t>{}(receiver * 0x9e3779b97f4a7c15 ^ sender);
}

void Listeners::open(std::size_t host, std::uint16_t port, const std::string &congestion_control) {
    const std::uint64_t key = std::uint64_t{host} << 16 | port;
    if (listeners_.contains(key))
        return;
    Fd socket = world_.hosts.open_socket(host, SOCK_STREAM);
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // A connection inherits the choice, and with it the ECN behaviour of its first packets.
    set_congestion_control(socket.get(), congestion_control);
    const sockaddr_in local = address(world_.hosts.ip(host), port);
    check(bind(socket.get(), reinterpret_cast<const sockaddr *>(&local), sizeof(local)),
          "bind to port " + std::to_string(port) + " of host " + std::to_string(host));
    check(listen(socket.get(), kBacklog), "listen");
    asio::posix::stream_descriptor descriptor{world_.io, socket.release()};
    listeners_.emplace(key, Listener{std::move(descriptor), host, port, congestion_control});
    wait(key);
}

void Listeners::close() {
    listeners_.clear();
    expected_.clear();
}

void Listeners::expect(const Connection &connection, std::weak_ptr<Accepts> run) {
    expected_[connection] = std::move(run);
}

void Listeners::wait(std::uint64_t key) {
    listeners_.at(key).socket.async_wait(asio::posix::stream_descriptor::wait_read,
                                         [this, key](const asio::error_code &error) {
                                             const auto found = listeners_.find(key);
                                             if (error || found == listeners_.end())
                                                 return;
                                             accept_some(found->second);
                                             wait(key);
                                         });
}

void Listeners::accept_some(Listener &listener) {
    for (int count = 0; count < kAcceptsAtOnce; ++count) {
        world_.timetable.serve();
        sockaddr_in peer{};
        socklen_t length = sizeof(peer);
        Fd socket{accept4(listener.socket.native_handle(), reinterpret_cast<sockaddr *>(&peer),
                          &length, SOCK_NONBLOCK | SOCK_CLOEXEC)};
        if (socket.get() < 0)
            return;
        hand_over(listener, std::move(socket), peer);
    }
}

void Listeners::hand_over(const Listener &listener, Fd socket, const sockaddr_in &peer) {
    const auto found =
        expected_.find({listener.host, listener.port, peer.sin_addr.s_addr, ntohs(peer.sin_port)});
    std::shared_ptr<Accepts> run;
    if (found != expected_.end()) {
        run = found->second.lock();
        expected_.erase(found);
    }
    if (run) {
        run->accepted(std::move(socket), listener.congestion_control);
    } else {
        set_abortive_close(socket.get());
    }
}

} // namespace dcgym
