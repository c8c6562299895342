// SPDX-License-Identifier: Apache-2.0
#include "probes.hpp"

#include <linux/icmp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "core/clock.hpp"

namespace dcgym {
namespace {

/// An echo request of ours; the ones of other programs have another magic.
struct Echo {
    icmphdr header{};
    std::uint32_t magic = kMagic;
    std::uint32_t index = 0;
    std::uint64_t number = 0;

    static constexpr std::uint32_t kMagic = 0x64636779;
};

std::int64_t realtime_ns() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// RFC 1071.
std::uint16_t internet_checksum(const void *data, std::size_t size_bytes) {
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at + 1 < size_bytes; at += 2) {
        std::uint16_t word = 0;
        std::memcpy(&word, static_cast<const char *>(data) + at, sizeof(word));
        sum += word;
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~(sum + (sum >> 16)));
}

Fd open_probe(World &world, std::size_t src, std::size_t dst) {
    Fd socket = world.hosts.open_socket(src, SOCK_RAW, IPPROTO_ICMP);
    const int on = 1;
    check(setsockopt(socket.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)), "SO_TIMESTAMPNS");
    const icmp_filter only_replies{~(1U << ICMP_ECHOREPLY)};
    check(setsockopt(socket.get(), SOL_RAW, ICMP_FILTER, &only_replies, sizeof(only_replies)),
          "ICMP_FILTER");
    const sockaddr_in peer = address(world.hosts.ip(dst), 0);
    check(connect(socket.get(), reinterpret_cast<const sockaddr *>(&peer), sizeof(peer)),
          "connect of a probe");
    return socket;
}

/// The kernel's time of arrival, 0 where it gave none.
std::int64_t arrival_ns(msghdr &message) {
    for (cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        timespec stamp{};
        std::memcpy(&stamp, CMSG_DATA(part), sizeof(stamp));
        return std::int64_t{stamp.tv_sec} * 1'000'000'000 + stamp.tv_nsec;
    }
    return 0;
}

} // namespace

Probe::Probe(World &world, std::size_t index, std::size_t src, std::size_t dst,
             std::int64_t period_ns)
    : Entry{world.timetable}, world_{world}, index_{index}, period_ns_{period_ns},
      socket_{world.io, open_probe(world, src, dst).release()}, next_ns_{now_ns()} {
    world.telemetry.probe(index).src = src;
    world.telemetry.probe(index).dst = dst;
    wait();
    send_request();
}

void Probe::restart() {
    base_ = first_open_ = sent_;
    world_.telemetry.probe(index_).rtt_ns = 0;
}

void Probe::due() {
    send_request();
}

void Probe::send_request() {
    Echo echo;
    echo.header.type = ICMP_ECHO;
    echo.index = static_cast<std::uint32_t>(index_);
    echo.number = sent_;
    echo.header.checksum = internet_checksum(&echo, sizeof(echo));
    sent_ns_[sent_ % kRemembered] = realtime_ns();
    // A full queue loses this request, which then counts as unanswered.
    send(socket_.native_handle(), &echo, sizeof(echo), MSG_NOSIGNAL | MSG_DONTWAIT);
    ++sent_;
    world_.telemetry.probe(index_).sent += 1;
    next_ns_ = std::max(next_ns_ + period_ns_, now_ns());
    world_.timetable.set(*this, next_ns_);
}

void Probe::wait() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const asio::error_code &error) {
                           if (error)
                               return;
                           world_.timetable.serve();
                           read_answers();
                           wait();
                       });
}

void Probe::read_answers() {
    std::array<char, sizeof(iphdr) + sizeof(Echo)> packet{};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
    for (;;) {
        iovec data{packet.data(), packet.size()};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        const ssize_t got = recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
        if (got < 0)
            return;
        Echo echo;
        std::memcpy(&echo, packet.data() + sizeof(iphdr), sizeof(echo));
        if (got == static_cast<ssize_t>(packet.size()) && echo.magic == Echo::kMagic &&
            echo.index == index_)
            answered(echo.number, arrival_ns(message));
    }
}

void Probe::answered(std::uint64_t number, std::int64_t arrival_ns) {
    if (number < base_ || number >= sent_ || number + kRemembered < sent_ || arrival_ns == 0)
        return;
    const std::int64_t rtt_ns =
        std::max<std::int64_t>(arrival_ns - sent_ns_[number % kRemembered], 1);
    dcgym_generator_probe &out = world_.telemetry.probe(index_);
    out.answered += 1;
    out.rtt_ns = static_cast<std::uint64_t>(rtt_ns);
    out.rtt_sum_ns += static_cast<std::uint64_t>(rtt_ns);
    first_open_ = std::max(first_open_, number + 1);
}

void Probe::sample() {
    const std::uint64_t oldest =
        std::max(first_open_, sent_ < kRemembered ? 0 : sent_ - kRemembered);
    const bool open = oldest < sent_;
    const std::int64_t age_ns = open ? realtime_ns() - sent_ns_[oldest % kRemembered] : 0;
    world_.telemetry.probe(index_).waiting_ns =
        static_cast<std::uint64_t>(std::max<std::int64_t>(age_ns, 0));
}

} // namespace dcgym
