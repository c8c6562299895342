// SPDX-License-Identifier: Apache-2.0
#include "connection.hpp"

#include <asio/post.hpp>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/clock.hpp"
#include "core/socket_options.hpp"
#include "core/payload.hpp"

namespace dcgym {
namespace {

/* What a refused client still sends is read this long: a reset could overtake the response. */
constexpr std::int64_t kDrainNs = 1'000'000'000;
constexpr std::uint64_t kMostDrainedBytes = 1 << 20;
constexpr std::size_t kRequestReadBytes = 16 * 1024;

std::array<char, kRequestReadBytes> &read_buffer() {
    static std::array<char, kRequestReadBytes> buffer;
    return buffer;
}

} // namespace

HttpConnection::HttpConnection(World &world, ConnectionOwner &owner, std::uint64_t ticket,
                               Fd socket, const SocketAddress::Key &client)
    : Entry{world.timetable}, world_{world}, owner_{owner}, ticket_{ticket}, client_{client},
      socket_{world.io} {
    socket_.assign(socket.release());
    world_.timetable.set(*this, now_ns() + owner_.idle_timeout_ns());
}

void HttpConnection::due() {
    // Nothing is lost where nothing was begun.
    close(is_idle() && !reader_.has_begun() ? Close::orderly : Close::abortive);
}

void HttpConnection::wait_read() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](const asio::error_code &error) {
                           if (error)
                               return;
                           self->world_.timetable.serve();
                           if (self->state_ == State::reading)
                               self->read_some();
                           else if (self->state_ == State::draining)
                               self->drain();
                       });
}

void HttpConnection::read_some() {
    auto &buffer = read_buffer();
    const ssize_t got = recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
    if (got < 0 && would_block())
        return wait_read();
    if (got <= 0)
        return close(got == 0 ? Close::orderly : Close::abortive);
    take({buffer.data(), static_cast<std::size_t>(got)});
}

void HttpConnection::take(std::string_view bytes) {
    switch (reader_.take(bytes)) {
    case Parsed::more:
        return wait_read();
    case Parsed::wrong:
        return answer(reader_.status(), 0, true);
    case Parsed::whole:
        return handle(reader_.next());
    }
}

void HttpConnection::handle(const HttpRequest &request) {
    head_ = request.head;
    keep_alive_ = request.keep_alive;
    if (!request.get && !request.head)
        return answer(405, 0, true);
    const std::string_view target{request.target};
    const std::size_t path_end = std::min(target.find('?'), target.size());
    if (target.substr(0, path_end) != "/work")
        return answer(404, 0, false);
    const auto work =
        parse_work(target.substr(std::min(path_end + 1, target.size())), owner_.resources());
    if (!work)
        return answer(400, 0, false);
    wanted_bytes_ = work->bytes;
    state_ = State::served;
    world_.timetable.cancel(*this);
    if (!owner_.serve(*this, *work))
        close(Close::abortive);
}

void HttpConnection::leave_place() {
    if (std::exchange(holds_place_, false))
        owner_.place_free();
}

void HttpConnection::respond() {
    answer(200, wanted_bytes_, false);
}

void HttpConnection::fail() {
    answer(503, 0, false);
}

void HttpConnection::answer(unsigned status, std::uint64_t body_bytes, bool is_last) {
    leave_place();
    must_drain_ = is_last;
    keep_alive_ = keep_alive_ && !is_last && owner_.may_keep_alive();
    header_ = response_header(status, body_bytes, keep_alive_, owner_.number());
    body_bytes_ = head_ ? 0 : body_bytes;
    state_ = State::writing;
    world_.timetable.set(*this, now_ns() + owner_.idle_timeout_ns());
    write_some();
}

void HttpConnection::write_some() {
    while (!header_.empty() || body_bytes_ > 0) {
        const ssize_t sent = write_chunk();
        if (sent < 0 && !would_block())
            return close(Close::abortive);
        if (sent < 0) {
            socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                               [self = shared_from_this()](const asio::error_code &error) {
                                   if (error)
                                       return;
                                   self->world_.timetable.serve();
                                   if (self->state_ == State::writing)
                                       self->write_some();
                               });
            return;
        }
        const auto from_header = std::min(header_.size(), static_cast<std::size_t>(sent));
        header_.erase(0, from_header);
        body_bytes_ -= static_cast<std::size_t>(sent) - from_header;
    }
    written();
}

ssize_t HttpConnection::write_chunk() {
    const std::size_t body = std::min<std::uint64_t>(body_bytes_, Payload::kBytes);
    std::array<iovec, 2> parts{
        {{header_.data(), header_.size()}, {const_cast<char *>(Payload::get().data()), body}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    // The end of the stream follows at once and shares the last packet.
    const bool ends = !keep_alive_ && body == body_bytes_;
    return sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | (ends ? MSG_MORE : 0));
}

void HttpConnection::written() {
    if (keep_alive_) {
        state_ = State::reading;
        // Not from here: a client that sends many requests at once would have all the time.
        return asio::post(world_.io, [self = shared_from_this()] {
            self->world_.timetable.serve();
            if (self->state_ == State::reading)
                self->take({});
        });
    }
    if (!must_drain_) {
        // Closing on what is not read would send a reset after the response.
        recv(socket_.native_handle(), nullptr, kMostDrainedBytes, MSG_TRUNC);
        return close(Close::orderly);
    }
    shutdown(socket_.native_handle(), SHUT_WR);
    state_ = State::draining;
    world_.timetable.set(*this, now_ns() + kDrainNs);
    drain();
}

void HttpConnection::drain() {
    auto &buffer = read_buffer();
    const ssize_t got = recv(socket_.native_handle(), buffer.data(), buffer.size(), MSG_TRUNC);
    if (got < 0 && would_block())
        return wait_read();
    if (got <= 0)
        return close(Close::orderly);
    drained_bytes_ += static_cast<std::uint64_t>(got);
    if (drained_bytes_ > kMostDrainedBytes)
        return close(Close::abortive);
    wait_read();
}

void HttpConnection::close(Close how) {
    if (state_ == State::closed)
        return;
    const auto alive = shared_from_this();
    state_ = State::closed;
    world_.timetable.cancel(*this);
    if (how == Close::abortive) {
        owner_.resets(*this);
        set_abortive_close(socket_.native_handle());
    }
    if (how == Close::silent)
        set_silent_close(socket_.native_handle());
    asio::error_code ignored;
    socket_.close(ignored);
    leave_place();
    owner_.closed(*this);
}

} // namespace dcgym
