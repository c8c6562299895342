// SPDX-License-Identifier: Apache-2.0
#include "veth_xdp.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/bpf_object.hpp"
#include "l4lb.h"
#include "common/clock.hpp"
#include "common/namespaces.hpp"

namespace dcgym {
namespace {

constexpr uint64_t probe_deadline_ns = 1'000'000'000;
constexpr int probe_interval_ms = 50;

using Frame = std::array<uint8_t, ETH_ZLEN>;

// To an address that bridges never forward to (IEEE 802.1Q, table 8-1). Coming back from it, the
// probe teaches them nothing: a group's address is no source.
Frame probe_frame() {
    Frame frame{};
    const ethhdr header{
        {0x01, 0x80, 0xc2, 0, 0, 0x0e}, {0x06, 0xdc, 0, 0, 0, 0x01}, htons(DCGYM_LB_PROBE_TYPE)};
    std::memcpy(frame.data(), &header, sizeof(header));
    return frame;
}

bool came_back(const Frame &frame, const Frame &sent) {
    return std::memcmp(frame.data(), sent.data() + ETH_ALEN, ETH_ALEN) == 0 &&
           std::memcmp(frame.data() + 2 * ETH_ALEN, sent.data() + 2 * ETH_ALEN, 2) == 0;
}

// Sees every frame, before any program of the fabric does.
int open_tap(uint32_t ifindex) {
    const int tap = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(ifindex);
    if (tap >= 0 && bind(tap, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0)
        return tap;
    const int error = errno;
    Descriptor closing(tap);
    return -error;
}

int probe(uint32_t ifindex) {
    const Descriptor tap(open_tap(ifindex));
    if (tap.get() < 0)
        return tap.get();
    const Frame sent = probe_frame();
    Frame frame{};
    const uint64_t deadline = monotonic_ns() + probe_deadline_ns;
    while (monotonic_ns() < deadline) {
        if (send(tap.get(), sent.data(), sent.size(), 0) < 0 && errno != ENOBUFS)
            return -errno;
        pollfd ready{tap.get(), POLLIN, 0};
        poll(&ready, 1, probe_interval_ms);
        while (recv(tap.get(), frame.data(), frame.size(), 0) > 0)
            if (came_back(frame, sent))
                return 0;
    }
    return -ETIMEDOUT;
}

} // namespace

int probe_from(const Peer &peer) {
    int result = 0;
    in_namespace(peer.namespace_fd, [&] { result = probe(peer.ifindex); });
    return result;
}

} // namespace dcgym
