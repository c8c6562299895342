// SPDX-License-Identifier: Apache-2.0
#include "datagrams.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/hosts.hpp"
#include "core/payload.hpp"

namespace dcgym {
namespace {

constexpr std::size_t kMostRequestBytes = 2048;
constexpr std::size_t kMostDatagramBytes = 65'000;
/* Then others have their turn. */
constexpr int kReceivedAtOnce = 64;
/* A burst shall wait here, not be lost: the servers' backlog decides about requests. */
constexpr int kBufferBytes = 4 << 20;

union Control {
    cmsghdr header;
    std::array<char, CMSG_SPACE(sizeof(in6_pktinfo))> bytes;
};

Fd open_port(World &world, std::size_t host, std::uint16_t port) {
    Fd socket = world.hosts.open_socket(host, SOCK_DGRAM, 0, AF_INET6);
    const int off = 0, on = 1;
    check(setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)), "V6ONLY");
    check(setsockopt(socket.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)), "PKTINFO");
    const SocketAddress local = SocketAddress::any(port);
    check(bind(socket.get(), local.raw(), local.length()),
          "bind of the server on UDP " + local.text() + " of host " + std::to_string(host));
    return socket;
}

} // namespace

DatagramSocket::DatagramSocket(World &world, Fd socket, std::function<bool()> receive)
    : world_{world}, socket_{world.io}, receive_{std::move(receive)} {
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBufferBytes, sizeof(kBufferBytes));
    socket_.assign(socket.release());
    wait();
}

DatagramSocket::~DatagramSocket() {
    asio::error_code ignored;
    socket_.close(ignored);
}

void DatagramSocket::wait() {
    const std::weak_ptr<bool> alive = alive_;
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this, alive](const asio::error_code &error) {
                           if (error || alive.expired())
                               return;
                           world_.timetable.serve();
                           // What falls due may have closed the socket.
                           for (int i = 0; i < kReceivedAtOnce && !alive.expired(); ++i)
                               if (!receive_())
                                   break;
                           if (!alive.expired())
                               wait();
                       });
}

DatagramPort::DatagramPort(World &world, std::size_t host, std::uint16_t port, Arrived arrived)
    : arrived_{std::move(arrived)}, socket_{world, open_port(world, host, port),
                                            [this] { return receive_one(); }} {}

bool DatagramPort::receive_one() {
    std::array<char, kMostRequestBytes> buffer;
    DatagramPeer peer;
    Control control{};
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_name = peer.from.raw();
    message.msg_namelen = sizeof(sockaddr_storage);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    const ssize_t got = recvmsg(socket_.fd(), &message, 0);
    if (got < 0)
        return errno == EINTR;
    const cmsghdr *const header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_type != IPV6_PKTINFO)
        return true;
    std::memcpy(&peer.to, CMSG_DATA(header), sizeof(peer.to));
    arrived_(peer, {buffer.data(), static_cast<std::size_t>(got)});
    return true;
}

void DatagramPort::send(const DatagramPeer &peer, const std::string &header, std::uint64_t bytes) {
    const bool fits = header.size() + bytes <= kMostDatagramBytes;
    SocketAddress to = peer.from;
    std::array<iovec, 2> parts{
        {{const_cast<char *>(header.data()), header.size()},
         {const_cast<char *>(Payload::get().data()), fits ? static_cast<std::size_t>(bytes) : 0}}};
    static_assert(Payload::kBytes >= kMostDatagramBytes);
    Control control{};
    msghdr message{};
    message.msg_name = to.raw();
    message.msg_namelen = to.length();
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr *const info = CMSG_FIRSTHDR(&message);
    info->cmsg_level = IPPROTO_IPV6;
    info->cmsg_type = IPV6_PKTINFO;
    info->cmsg_len = CMSG_LEN(sizeof(in6_pktinfo));
    in6_pktinfo from = peer.to;
    from.ipi6_ifindex = 0; // by the route, not by the loopback that has the VIP
    std::memcpy(CMSG_DATA(info), &from, sizeof(from));
    sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
}

} // namespace dcgym
