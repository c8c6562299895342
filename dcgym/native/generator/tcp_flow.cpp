// SPDX-License-Identifier: MIT
#include "tcp_flow.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "clock.hpp"

namespace dcgym {
namespace {

constexpr std::size_t kChunkBytes = 256 * 1024;
/* One event moves at most this many chunks, so that the timers of other flows stay on time. */
constexpr int kChunksPerEvent = 4;
/* Enough for the next millisecond at 2 Gbit/s; more would only wait in the socket. */
constexpr int kNotSentLowBytes = 256 * 1024;
/* Fewer wake-ups; the exact count comes from TCP_INFO and a FIN wakes at once. */
constexpr int kReceiveLowBytes = 16 * 1024;

const std::vector<char> &payload() {
    static const std::vector<char> bytes(kChunkBytes, 'd');
    return bytes;
}

bool would_block() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

} // namespace

TcpRun::TcpRun(World &world, Listeners &listeners, const FlowSpec &spec, std::uint64_t repetition,
               std::int64_t planned_start_ns, Ended ended)
    : Run{world, spec, repetition, planned_start_ns, std::move(ended)},
      listeners_{listeners}, sender_{world.io}, receiver_{world.io}, deadline_{world.io} {}

std::shared_ptr<TcpRun> TcpRun::self() {
    return std::static_pointer_cast<TcpRun>(shared_from_this());
}

void TcpRun::begin() {
    Fd socket = world_.hosts.open_socket(spec_.src, SOCK_STREAM);
    set_sender_options(socket.get());
    connect(socket.get());
    sender_.assign(socket.release());
    arm_deadline();
    wait_writable();
}

void TcpRun::set_sender_options(int fd) {
    set_congestion_control(fd, spec_.congestion_control);
    check(
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kNotSentLowBytes, sizeof(kNotSentLowBytes)),
        "TCP_NOTSENT_LOWAT");
    if (spec_.rate_bps == kUnlimited)
        return;
    const std::uint64_t bytes_per_s = static_cast<std::uint64_t>(spec_.rate_bps) / 8;
    check(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof(bytes_per_s)),
          "SO_MAX_PACING_RATE");
}

void TcpRun::connect(int fd) {
    const sockaddr_in peer = address(world_.hosts.ip(spec_.dst), spec_.port);
    if (::connect(fd, reinterpret_cast<const sockaddr *>(&peer), sizeof(peer)) != 0 &&
        errno != EINPROGRESS) {
        check(-1, "connect");
    }
    sockaddr_in local{};
    socklen_t length = sizeof(local);
    check(getsockname(fd, reinterpret_cast<sockaddr *>(&local), &length), "getsockname");
    listeners_.expect(local.sin_addr.s_addr, ntohs(local.sin_port), spec_.dst, spec_.port, self());
}

void TcpRun::arm_deadline() {
    if (spec_.duration_ns == kUnlimited)
        return;
    deadline_.expires_at(time_point(deadline_ns()));
    deadline_.async_wait([run = self()](const asio::error_code &error) {
        if (!error)
            run->end(DCGYM_GENERATOR_FINISHED);
    });
}

std::uint64_t TcpRun::remaining_bytes() const {
    if (spec_.size_bytes == kUnlimited)
        return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(spec_.size_bytes) - written_bytes_;
}

void TcpRun::wait_writable() {
    sender_.async_wait(Descriptor::wait_write, [run = self()](const asio::error_code &error) {
        if (!error && !run->ended_)
            run->write_some();
    });
}

void TcpRun::write_some() {
    for (int i = 0; i < kChunksPerEvent && remaining_bytes() > 0; ++i) {
        const std::size_t want = std::min<std::uint64_t>(kChunkBytes, remaining_bytes());
        const ssize_t sent = send(sender_.native_handle(), payload().data(), want, MSG_NOSIGNAL);
        if (sent < 0 && would_block())
            break;
        if (sent < 0)
            return end(DCGYM_GENERATOR_FAILED);
        written_bytes_ += static_cast<std::uint64_t>(sent);
        if (static_cast<std::size_t>(sent) < want)
            break;
    }
    if (remaining_bytes() == 0)
        return finish_writing();
    wait_writable();
}

void TcpRun::finish_writing() {
    shutdown(sender_.native_handle(), SHUT_WR);
    watch_sender();
}

void TcpRun::watch_sender() {
    // The receiver never answers, so the only news here is a broken connection.
    sender_.async_wait(Descriptor::wait_read, [run = self()](const asio::error_code &error) {
        if (error || run->ended_)
            return;
        char byte = 0;
        const ssize_t got = recv(run->sender_.native_handle(), &byte, 1, MSG_DONTWAIT);
        if (got < 0 && would_block())
            return run->watch_sender();
        run->end(DCGYM_GENERATOR_FAILED);
    });
}

void TcpRun::accepted(Fd socket) {
    if (ended_)
        return set_abortive_close(socket.get());
    // The listener may be shared by flows with another congestion control.
    set_congestion_control(socket.get(), spec_.congestion_control);
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVLOWAT, &kReceiveLowBytes, sizeof(kReceiveLowBytes));
    receiver_.assign(socket.release());
    read_some();
}

void TcpRun::wait_readable() {
    receiver_.async_wait(Descriptor::wait_read, [run = self()](const asio::error_code &error) {
        if (!error && !run->ended_)
            run->read_some();
    });
}

void TcpRun::read_some() {
    for (int i = 0; i < kChunksPerEvent; ++i) {
        // MSG_TRUNC discards the data in the kernel instead of copying it.
        const ssize_t got = recv(receiver_.native_handle(), nullptr, 1 << 20, MSG_TRUNC);
        if (got == 0)
            return received_all();
        if (got < 0 && would_block())
            break;
        if (got < 0)
            return end(DCGYM_GENERATOR_FAILED);
        read_bytes_ += static_cast<std::uint64_t>(got);
        count_in_order(read_bytes_);
    }
    wait_readable();
}

void TcpRun::received_all() {
    const bool complete = spec_.size_bytes != kUnlimited &&
                          read_bytes_ == static_cast<std::uint64_t>(spec_.size_bytes);
    end(complete ? DCGYM_GENERATOR_FINISHED : DCGYM_GENERATOR_FAILED);
}

void TcpRun::count_in_order(std::uint64_t total_bytes) {
    in_order_bytes_ = std::max(in_order_bytes_, total_bytes);
    count_rx(in_order_bytes_);
}

void TcpRun::count_rx(std::uint64_t total_bytes) {
    if (total_bytes <= counted_rx_bytes_)
        return;
    sink().rx_bytes += total_bytes - counted_rx_bytes_;
    counted_rx_bytes_ = total_bytes;
}

void TcpRun::sample() {
    if (sender_.is_open())
        sample_sender();
    if (receiver_.is_open()) {
        count_in_order(sample_tcp(receiver_.native_handle()).received_bytes);
    }
}

void TcpRun::sample_sender() {
    const TcpSample now = sample_tcp(sender_.native_handle());
    // What waits behind a hole has arrived too: without it the counters would stand still during
    // each loss recovery and leap afterwards.
    const std::uint64_t arrived = std::min(now.acked_bytes + now.sacked_bytes, written_bytes_);
    if (arrived > counted_tx_bytes_) {
        source().tx_bytes += arrived - counted_tx_bytes_;
        counted_tx_bytes_ = arrived;
    }
    count_rx(arrived);
    if (now.retransmits > retransmits_) {
        source().retransmits += now.retransmits - retransmits_;
        retransmits_ = now.retransmits;
    }
    if (now.srtt_ns == 0)
        return;
    srtt_ns_ = now.srtt_ns;
    min_rtt_ns_ = now.min_rtt_ns;
    source().rtt_sum_ns += now.srtt_ns;
    source().rtt_samples += 1;
}

void TcpRun::close() {
    deadline_.cancel();
    for (Descriptor *descriptor : {&sender_, &receiver_}) {
        if (!descriptor->is_open())
            continue;
        set_abortive_close(descriptor->native_handle());
        asio::error_code ignored;
        descriptor->close(ignored);
    }
}

} // namespace dcgym
