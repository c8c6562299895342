// SPDX-License-Identifier: Apache-2.0
#include "tcp_flow.hpp"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/clock.hpp"
#include "core/payload.hpp"
#include "core/socket_options.hpp"

namespace dcgym {
namespace {

constexpr std::uint64_t kChunkBytes = Payload::kBytes;
/* Below this, copying is cheaper than handing pages over through sendfile(2). */
constexpr std::uint64_t kLeastPagesBytes = 64 * 1024;
/* One event moves at most this many chunks, so that other flows stay on time. */
constexpr int kChunksPerEvent = 4;
/* Enough for the next millisecond at 2 Gbit/s; more would only wait in the socket. */
constexpr std::uint64_t kMostUnsentBytes = 256 * 1024;
constexpr std::uint64_t kLeastUnsentBytes = 16 * 1024;
/* Of all flows: what waits in thousands of sockets takes the kernel long to throw away. */
constexpr std::uint64_t kUnsentBytes = 64 << 20;
/* Fewer wake-ups; the counters come from TCP_INFO and the end of the data wakes at once. */
constexpr int kReceiveLowBytes = 16 * 1024;

} // namespace

TcpRun::TcpRun(World &world, Listeners &listeners, SocketCloser &closer, RunSpec spec, Ended ended)
    : Run{world, std::move(spec), std::move(ended)},
      listeners_{listeners}, closer_{closer}, sender_{world.io}, receiver_{world.io} {}

std::shared_ptr<TcpRun> TcpRun::self() {
    return std::static_pointer_cast<TcpRun>(shared_from_this());
}

void TcpRun::wait(Descriptor &descriptor, Descriptor::wait_type what, void (TcpRun::*then)()) {
    descriptor.async_wait(what, [run = self(), then](const asio::error_code &error) {
        if (error)
            return;
        run->world_.timetable.serve();
        if (!run->ended_)
            (run.get()->*then)();
    });
}

void TcpRun::begin() {
    Fd socket = world_.hosts.open_socket(spec_.src, SOCK_STREAM);
    set_sender_options(socket.get());
    connect(socket.get());
    sender_.assign(socket.release());
    if (spec_.duration_ns != kUnlimited)
        world_.timetable.set(*this, deadline_ns());
    // Where nothing queues, the handshake is over by now.
    write_some();
}

void TcpRun::set_sender_options(int fd) const {
    const int on = 1;
    check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
    set_congestion_control(fd, spec_.congestion_control);
    const int unsent_bytes = most_unsent_bytes();
    if (spec_.size_bytes == kUnlimited || spec_.size_bytes > unsent_bytes)
        check(setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof(unsent_bytes)),
              "TCP_NOTSENT_LOWAT");
    if (spec_.rate_bps == kUnlimited)
        return;
    const std::uint64_t bytes_per_s = static_cast<std::uint64_t>(spec_.rate_bps) / 8;
    check(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof(bytes_per_s)),
          "SO_MAX_PACING_RATE");
}

int TcpRun::most_unsent_bytes() const {
    // Its place in the list of runs tells how many there are.
    return static_cast<int>(
        std::clamp(kUnsentBytes / (place + 1), kLeastUnsentBytes, kMostUnsentBytes));
}

void TcpRun::connect(int fd) {
    const in_addr_t source_ip = world_.hosts.ip(spec_.src);
    bind_source(fd, source_ip, spec_.flow_id, spec_.repetition);
    const sockaddr_in peer = address(world_.hosts.ip(spec_.dst), spec_.port);
    if (::connect(fd, reinterpret_cast<const sockaddr *>(&peer), sizeof(peer)) != 0 &&
        errno != EINPROGRESS) {
        check(-1, "connect");
    }
    sockaddr_in local{};
    socklen_t length = sizeof(local);
    check(getsockname(fd, reinterpret_cast<sockaddr *>(&local), &length), "getsockname");
    connection_ = {spec_.dst, spec_.port, source_ip, ntohs(local.sin_port)};
    listeners_.expect(connection_, self());
}

void TcpRun::due() {
    const auto alive = self();
    end(DCGYM_GENERATOR_FINISHED);
}

std::uint64_t TcpRun::remaining_bytes() const {
    if (spec_.size_bytes == kUnlimited)
        return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(spec_.size_bytes) - written_bytes_;
}

void TcpRun::write_some() {
    for (int i = 0; i < kChunksPerEvent && remaining_bytes() > 0; ++i) {
        const std::uint64_t want = std::min(kChunkBytes, remaining_bytes());
        const ssize_t sent = write_chunk(want);
        if (sent < 0 && would_block())
            break;
        if (sent < 0)
            return broken();
        written_bytes_ += static_cast<std::uint64_t>(sent);
        if (static_cast<std::uint64_t>(sent) < want)
            break;
    }
    if (remaining_bytes() > 0)
        return wait(sender_, Descriptor::wait_write, &TcpRun::write_some);
    shutdown(sender_.native_handle(), SHUT_WR);
    watch_sender();
}

ssize_t TcpRun::write_chunk(std::uint64_t want_bytes) {
    const int fd = sender_.native_handle();
    const bool last = want_bytes == remaining_bytes();
    if (!last && want_bytes >= kLeastPagesBytes) {
        off_t offset = 0;
        return sendfile(fd, Payload::get().fd(), &offset, want_bytes);
    }
    // The end of the stream follows at once and shares the last packet.
    return send(fd, Payload::get().data(), want_bytes, MSG_NOSIGNAL | (last ? MSG_MORE : 0));
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
        run->broken();
    });
}

void TcpRun::accepted(Fd socket, const std::string &inherited) {
    if (ended_)
        return set_abortive_close(socket.get());
    connected_ = true;
    set_receiver_options(socket.get(), inherited);
    receiver_.assign(socket.release());
    read_some();
}

void TcpRun::set_receiver_options(int fd, const std::string &inherited) const {
    // The listener may be shared by flows with another congestion control.
    if (spec_.congestion_control != inherited)
        set_congestion_control(fd, spec_.congestion_control);
    if (spec_.size_bytes == kUnlimited || spec_.size_bytes > kReceiveLowBytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &kReceiveLowBytes, sizeof(kReceiveLowBytes));
}

ssize_t TcpRun::read_chunk() {
    // MSG_TRUNC discards the data in the kernel instead of copying it.
    const ssize_t got = recv(receiver_.native_handle(), nullptr, 1 << 20, MSG_TRUNC);
    if (got > 0) {
        read_bytes_ += static_cast<std::uint64_t>(got);
        count_rx(read_bytes_);
    }
    return got;
}

void TcpRun::read_some() {
    for (int i = 0; i < kChunksPerEvent; ++i) {
        const ssize_t got = read_chunk();
        if (is_complete())
            return end(DCGYM_GENERATOR_FINISHED);
        if (got < 0 && would_block())
            break;
        if (got <= 0)
            return broken();
    }
    wait(receiver_, Descriptor::wait_read, &TcpRun::read_some);
}

void TcpRun::broken() {
    end(connected_ ? DCGYM_GENERATOR_RESET : DCGYM_GENERATOR_REFUSED);
}

bool TcpRun::is_complete() const {
    return spec_.size_bytes != kUnlimited &&
           read_bytes_ == static_cast<std::uint64_t>(spec_.size_bytes);
}

std::uint64_t TcpRun::delivered_bytes() {
    // Not read: the kernel would tell the sender of each, thousands of times when a plan is cut.
    int waiting_bytes = 0;
    if (receiver_.is_open() && ioctl(receiver_.native_handle(), SIOCINQ, &waiting_bytes) == 0) {
        read_bytes_ += static_cast<std::uint64_t>(waiting_bytes);
        count_rx(read_bytes_);
    }
    return read_bytes_;
}

void TcpRun::count_rx(std::uint64_t total_bytes) {
    if (total_bytes <= counted_rx_bytes_)
        return;
    sink().rx_bytes += total_bytes - counted_rx_bytes_;
    counted_rx_bytes_ = total_bytes;
}

void TcpRun::sample() {
    if (!sender_.is_open())
        return;
    const TcpSample now = sample_tcp(sender_.native_handle());
    // What waits behind a hole has arrived too: without it the counters would stand still during
    // each loss recovery and leap afterwards. What was read has arrived, acknowledged or not.
    const std::uint64_t arrived =
        std::max(std::min(now.acked_bytes + now.sacked_bytes, written_bytes_), read_bytes_);
    if (arrived > counted_tx_bytes_) {
        source().tx_bytes += arrived - counted_tx_bytes_;
        counted_tx_bytes_ = arrived;
    }
    count_rx(arrived);
    if (now.retransmits > retransmits_) {
        source().retransmits += now.retransmits - retransmits_;
        retransmits_ = now.retransmits;
    }
    reorderings_ = now.reorderings;
    spurious_retransmits_ = now.spurious_retransmits;
    if (now.srtt_ns == 0)
        return;
    srtt_ns_ = now.srtt_ns;
    min_rtt_ns_ = now.min_rtt_ns;
    world_.telemetry.note_rtt(spec_.src, srtt_ns_, min_rtt_ns_);
}

void TcpRun::close(dcgym_generator_outcome outcome) {
    listeners_.forget(connection_);
    if (receiver_.is_open()) {
        out_of_order_ = sample_tcp(receiver_.native_handle()).out_of_order;
        set_silent_close(receiver_.native_handle());
        close_socket(receiver_, outcome);
    }
    if (!sender_.is_open())
        return;
    // Thousands of flows that are cut at a time would fill the network with thousands of resets.
    if (outcome == DCGYM_GENERATOR_CUT && connected_)
        set_silent_close(sender_.native_handle());
    else
        set_abortive_close(sender_.native_handle());
    close_socket(sender_, outcome);
}

void TcpRun::close_socket(Descriptor &descriptor, dcgym_generator_outcome outcome) {
    Fd socket{descriptor.release()};
    if (outcome == DCGYM_GENERATOR_CUT)
        closer_.add(std::move(socket));
}

} // namespace dcgym
