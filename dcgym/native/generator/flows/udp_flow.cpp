// SPDX-License-Identifier: Apache-2.0
#include "udp_flow.hpp"

#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/clock.hpp"
#include "core/payload.hpp"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace dcgym {
namespace {

constexpr int kHeaderBytes = 28;                 /* IPv4 and UDP */
constexpr int kReceiveBufferBytes = 32 << 20;    /* 40 ms at 1 Gbit/s of 1500-byte packets */
constexpr int kSendBufferBytes = 4 << 20;        /* the qdisc shall drop, not the socket */
constexpr std::int64_t kBitsNs = 8'000'000'000;  /* bits in a byte, nanoseconds in a second */
constexpr std::int64_t kMaxDebtNs = 50'000'000;  /* what a late timer may catch up on ... */
constexpr std::int64_t kMaxDebtBytes = 64 << 20; /* ... and no more than some milliseconds' work */
constexpr std::int64_t kStragglerNs = 100'000'000;
constexpr std::size_t kSegmentsPerSend = 40;
constexpr std::size_t kBytesPerSend = 65'535 - kHeaderBytes; /* the kernel refuses more */
constexpr std::size_t kReceiveBatch = 64;

const sockaddr *raw(const sockaddr_in &address) {
    return reinterpret_cast<const sockaddr *>(&address);
}

} // namespace

void UdpRun::begin() {
    open_sockets();
    connect_sockets();
    size_datagrams();
    pacing_.add(datagrams_per_s());
    paced_ = true;
    origin_ns_ = spec_.planned_start_ns;
    tick();
}

void UdpRun::open_sockets() {
    sender_ = world_.hosts.open_socket(spec_.src, SOCK_DGRAM);
    receiver_ = world_.hosts.open_socket(spec_.dst, SOCK_DGRAM);
    const int on = 1;
    setsockopt(receiver_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(receiver_.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
    setsockopt(receiver_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBufferBytes, sizeof(int));
    setsockopt(sender_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBufferBytes, sizeof(int));
}

void UdpRun::connect_sockets() {
    bind_source(sender_.get(), world_.hosts.ip(spec_.src), spec_.flow_id, spec_.repetition);
    sockaddr_in source{};
    socklen_t length = sizeof(source);
    check(getsockname(sender_.get(), reinterpret_cast<sockaddr *>(&source), &length), "sockname");
    const sockaddr_in sink = address(world_.hosts.ip(spec_.dst), spec_.port);
    check(bind(receiver_.get(), raw(sink), sizeof(sink)), "bind of a UDP receiver");
    // Connected to its sender, so that flows which share a port keep apart.
    check(::connect(receiver_.get(), raw(source), sizeof(source)), "connect of a UDP receiver");
    check(::connect(sender_.get(), raw(sink), sizeof(sink)), "connect of a UDP sender");
}

void UdpRun::size_datagrams() {
    int mtu = 1500;
    socklen_t length = sizeof(mtu);
    getsockopt(sender_.get(), IPPROTO_IP, IP_MTU, &mtu, &length);
    datagram_bytes_ = static_cast<std::size_t>(std::clamp(mtu, 576, 9000) - kHeaderBytes);
}

std::uint64_t UdpRun::datagrams_per_s() const {
    return static_cast<std::uint64_t>(spec_.rate_bps) / 8 / datagram_bytes_ + 1;
}

void UdpRun::due() {
    const auto alive = shared_from_this();
    tick();
}

std::uint64_t UdpRun::due_bytes(std::int64_t time_ns) const {
    const __int128 elapsed = std::min(time_ns, deadline_ns()) - origin_ns_;
    const __int128 due = elapsed * spec_.rate_bps / kBitsNs + base_bytes_;
    return static_cast<std::uint64_t>(std::max<__int128>(due, 0));
}

bool UdpRun::all_sent(std::int64_t time_ns) const {
    if (time_ns >= deadline_ns())
        return true;
    return spec_.size_bytes != kUnlimited &&
           scheduled_bytes_ >= static_cast<std::uint64_t>(spec_.size_bytes);
}

void UdpRun::tick() {
    const std::int64_t time_ns = now_ns();
    if (sent_all_ns_ == 0) {
        send_due(time_ns);
        if (all_sent(time_ns))
            sent_all_ns_ = time_ns;
    }
    if (sent_all_ns_ != 0)
        return await_stragglers(time_ns);
    world_.timetable.set(*this, std::min(next_send_ns(), deadline_ns()));
}

std::int64_t UdpRun::next_send_ns() const {
    // When the next datagram is due, counted from the origin and not from this (late) tick.
    const __int128 ahead = scheduled_bytes_ - base_bytes_ + datagram_bytes_;
    const std::int64_t due_ns =
        origin_ns_ + static_cast<std::int64_t>(ahead * kBitsNs / spec_.rate_bps) + 1;
    return pacing_.next_turn_ns(spec_.flow_id, std::max(due_ns, now_ns()));
}

void UdpRun::send_due(std::int64_t time_ns) {
    std::uint64_t due = due_bytes(time_ns);
    const __int128 debt_bytes = static_cast<__int128>(spec_.rate_bps) * kMaxDebtNs / kBitsNs;
    const auto debt_limit =
        static_cast<std::uint64_t>(std::min<__int128>(debt_bytes, kMaxDebtBytes)) + datagram_bytes_;
    if (due > scheduled_bytes_ + debt_limit) {
        origin_ns_ = time_ns;
        base_bytes_ = scheduled_bytes_ + debt_limit;
        due = base_bytes_;
    }
    const bool sized = spec_.size_bytes != kUnlimited;
    if (sized)
        due = std::min(due, static_cast<std::uint64_t>(spec_.size_bytes));
    const bool last = sized && due == static_cast<std::uint64_t>(spec_.size_bytes);
    const std::uint64_t most =
        std::min(kSegmentsPerSend, kBytesPerSend / datagram_bytes_) * datagram_bytes_;
    while (scheduled_bytes_ < due) {
        std::uint64_t bytes = due - scheduled_bytes_;
        if (!last)
            bytes -= bytes % datagram_bytes_;
        bytes = std::min(bytes, most);
        if (bytes == 0)
            return;
        if (send_burst(bytes))
            sent_bytes_ += bytes;
        scheduled_bytes_ += bytes;
    }
}

bool UdpRun::send_burst(std::uint64_t bytes) {
    if (segmentation_ && bytes > datagram_bytes_) {
        const int segment = static_cast<int>(datagram_bytes_);
        setsockopt(sender_.get(), IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
        if (send(sender_.get(), Payload::get().data(), bytes, MSG_NOSIGNAL) >= 0)
            return true;
        // Devices without checksum offload refuse; errors of earlier packets may show here too.
        if (errno != EIO && errno != EINVAL && errno != EMSGSIZE)
            return false;
        segmentation_ = false;
        const int off = 0;
        setsockopt(sender_.get(), IPPROTO_UDP, UDP_SEGMENT, &off, sizeof(off));
    }
    bool sent = true;
    for (std::uint64_t done = 0; done < bytes; done += datagram_bytes_) {
        const std::uint64_t size = std::min<std::uint64_t>(datagram_bytes_, bytes - done);
        sent = send(sender_.get(), Payload::get().data(), size, MSG_NOSIGNAL) >= 0 && sent;
    }
    return sent;
}

void UdpRun::drain() {
    std::array<mmsghdr, kReceiveBatch> messages{};
    std::uint64_t got_bytes = 0;
    for (;;) {
        const int got = recvmmsg(receiver_.get(), messages.data(), kReceiveBatch,
                                 MSG_DONTWAIT | MSG_TRUNC, nullptr);
        for (int i = 0; i < got; ++i)
            got_bytes += messages[static_cast<std::size_t>(i)].msg_len;
        if (got < static_cast<int>(kReceiveBatch))
            break;
    }
    if (got_bytes == 0)
        return;
    received_bytes_ += got_bytes;
    sink().rx_bytes += got_bytes;
    last_arrival_ns_ = now_ns();
}

void UdpRun::await_stragglers(std::int64_t time_ns) {
    // Packets may still be queued on the way: they belong to this flow's record.
    drain();
    const std::int64_t latest_ns = std::max(last_arrival_ns_, sent_all_ns_);
    if (received_bytes_ < sent_bytes_ && time_ns - latest_ns < kStragglerNs) {
        return world_.timetable.set(*this, time_ns + UdpPacing::kStepNs);
    }
    end_ns_ = latest_ns;
    end(DCGYM_GENERATOR_FINISHED);
}

void UdpRun::sample() {
    if (!paced_)
        return;
    drain();
    source().tx_bytes += sent_bytes_ - counted_tx_bytes_;
    counted_tx_bytes_ = sent_bytes_;
}

std::uint64_t UdpRun::delivered_bytes() {
    if (paced_)
        drain();
    return received_bytes_;
}

void UdpRun::close(dcgym_generator_outcome /*outcome*/) {
    if (paced_)
        pacing_.remove(datagrams_per_s());
    paced_ = false;
    sender_ = Fd{};
    receiver_ = Fd{};
}

} // namespace dcgym
