// SPDX-License-Identifier: MIT
#include "listeners.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

namespace dcgym {
namespace {

constexpr int kBacklog = 4096;

} // namespace

void set_congestion_control(int fd, const std::string &name) {
    if (name.empty())
        return;
    check(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                     static_cast<socklen_t>(name.size())),
          "congestion control " + name);
}

void set_abortive_close(int fd) {
    const linger abort{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
}

void Listeners::open(std::size_t host, std::uint16_t port, const std::string &congestion_control) {
    const Place place{host, port};
    if (listeners_.contains(place))
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
    listeners_.emplace(place, asio::posix::stream_descriptor{world_.io, socket.release()});
    wait(place);
}

void Listeners::close() {
    listeners_.clear();
    expected_.clear();
}

void Listeners::expect(in_addr_t source_ip, std::uint16_t source_port, std::size_t host,
                       std::uint16_t port, std::weak_ptr<Accepts> run) {
    expected_[{{host, port}, {source_ip, source_port}}] = std::move(run);
}

void Listeners::wait(const Place &place) {
    auto &listener = listeners_.at(place);
    listener.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this, place](const asio::error_code &error) {
                            const auto found = listeners_.find(place);
                            if (error || found == listeners_.end())
                                return;
                            accept_all(place, found->second.native_handle());
                            wait(place);
                        });
}

void Listeners::accept_all(const Place &place, int listener) {
    for (;;) {
        sockaddr_in peer{};
        socklen_t length = sizeof(peer);
        Fd socket{accept4(listener, reinterpret_cast<sockaddr *>(&peer), &length,
                          SOCK_NONBLOCK | SOCK_CLOEXEC)};
        if (socket.get() < 0)
            return;
        hand_over(place, std::move(socket), {peer.sin_addr.s_addr, ntohs(peer.sin_port)});
    }
}

void Listeners::hand_over(const Place &place, Fd socket, const Origin &origin) {
    const auto found = expected_.find({place, origin});
    std::shared_ptr<Accepts> run;
    if (found != expected_.end()) {
        run = found->second.lock();
        expected_.erase(found);
    }
    if (run) {
        run->accepted(std::move(socket));
    } else {
        set_abortive_close(socket.get());
    }
}

} // namespace dcgym
