// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/world.hpp"
#include "address.hpp"

namespace dcgym {

/// Whom a datagram came from, and which of the host's addresses it was sent to.
struct DatagramPeer {
    SocketAddress from;
    in6_pktinfo to{};
};

/// A bound UDP socket that is read in the event loop, a number of datagrams at a time.
class DatagramSocket {
  public:
    /// `receive` reads a datagram, if there is one; it tells whether there may be another.
    DatagramSocket(World &world, Fd socket, std::function<bool()> receive);
    ~DatagramSocket();

    int fd() { return socket_.native_handle(); }

  private:
    void wait();

    World &world_;
    asio::posix::stream_descriptor socket_;
    const std::function<bool()> receive_;
    /* What the event loop still holds for this socket may outlive it. */
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// The UDP port of a server: a request is a datagram, and so is its response.
///
/// The response comes from the address that was asked, also where that is a VIP of the host.
class DatagramPort {
  public:
    using Arrived = std::function<void(const DatagramPeer &, std::string_view)>;

    /// What comes is handed to `arrived`, in the event loop.
    DatagramPort(World &world, std::size_t host, std::uint16_t port, Arrived arrived);

    /// Sends a header and so many bytes of payload. Larger than a datagram may be: only the header.
    void send(const DatagramPeer &peer, const std::string &header, std::uint64_t bytes);

  private:
    bool receive_one();

    const Arrived arrived_;
    DatagramSocket socket_;
};

} // namespace dcgym
