// SPDX-License-Identifier: Apache-2.0
#include "request.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "core/clock.hpp"
#include "core/socket_options.hpp"

namespace dcgym {
namespace {

constexpr std::size_t kResponseReadBytes = 256 * 1024;
/* The server closes first, so that the client's port is free again at once; if it does not: */
constexpr std::int64_t kCloseNs = 1'000'000'000;

void set_client_options(int fd) {
    const int on = 1;
    const int off = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    // The handshake's last acknowledgement rides on the request, as browsers and wrk have it.
    setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
}

} // namespace

RequestRun::RequestRun(World &world, ConnectionRegistry &registry,
                       std::shared_ptr<const RequestPlan> plan, std::size_t id, Owner &owner)
    : Entry{world.timetable}, world_{world}, registry_{registry}, plan_{std::move(plan)}, id_{id},
      owner_{owner}, socket_{world.io}, message_{plan_->message(id)} {
    result_.start_ns = now_ns();
    result_.server = -1;
}

RequestRun::~RequestRun() {
    registry_.remove(key_, *this);
}

void RequestRun::begin() {
    const SocketAddress &target = plan_->target(id_);
    const int type = plan_->is_datagram(id_) ? SOCK_DGRAM : SOCK_STREAM;
    Fd socket = world_.hosts.open_socket(plan_->request(id_).client, type, 0, target.family());
    if (type == SOCK_STREAM)
        set_client_options(socket.get());
    bind_client(socket.get(), target.family(), id_);
    socket_.assign(socket.release());
    if (plan_->timeout_ns() > 0)
        world_.timetable.set(*this, result_.start_ns + plan_->timeout_ns());
    connect();
}

void RequestRun::connect() {
    const SocketAddress &target = plan_->target(id_);
    const int fd = socket_.native_handle();
    if (::connect(fd, target.raw(), target.length()) != 0 && errno != EINPROGRESS)
        return end(DCGYM_HTTP_REFUSED);
    key_ = SocketAddress::local(fd).key();
    registry_.add(key_, *this);
    // Where nothing queues, the handshake is over by now.
    write_some();
}

void RequestRun::wait(Descriptor::wait_type what, void (RequestRun::*then)()) {
    socket_.async_wait(what, [run = shared_from_this(), then](const asio::error_code &error) {
        if (error)
            return;
        run->world_.timetable.serve();
        if (run->socket_.is_open())
            (run.get()->*then)();
    });
}

void RequestRun::write_some() {
    const ssize_t sent =
        send(socket_.native_handle(), message_.data(), message_.size(), MSG_NOSIGNAL);
    if (sent < 0 && !would_block())
        return broken();
    if (sent >= 0) {
        if (result_.established_ns == 0)
            result_.established_ns = now_ns();
        message_.erase(0, static_cast<std::size_t>(sent));
    }
    if (message_.empty())
        return read_some();
    wait(Descriptor::wait_write, &RequestRun::write_some);
}

void RequestRun::read_some() {
    static std::array<char, kResponseReadBytes> buffer;
    const ssize_t got = recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
    if (got < 0 && would_block())
        return wait(Descriptor::wait_read, &RequestRun::read_some);
    if (got < 0)
        return broken();
    if (result_.first_byte_ns == 0 && got > 0)
        result_.first_byte_ns = now_ns();
    take(buffer.data(), static_cast<std::size_t>(got));
}

void RequestRun::take(const char *data, std::size_t size) {
    const Parsed parsed = size > 0 ? reader_.take({data, size}) : reader_.end();
    result_.bytes = reader_.body_bytes();
    result_.status = reader_.status();
    if (parsed == Parsed::more)
        return wait(Descriptor::wait_read, &RequestRun::read_some);
    if (parsed == Parsed::wrong && size == 0) {
        // Whoever does not know a connection resets it; only its own server ends it in order.
        was_lost_ = !plan_->is_datagram(id_);
        return broken();
    }
    if (parsed == Parsed::wrong)
        return end(DCGYM_HTTP_FAILED);
    end(result_.status == 200 ? DCGYM_HTTP_FINISHED : DCGYM_HTTP_FAILED);
}

void RequestRun::broken() {
    if (was_rejected_)
        return end(DCGYM_HTTP_REJECTED);
    if (was_lost_)
        return end(DCGYM_HTTP_LOST);
    const bool is_refused = result_.established_ns == 0 || plan_->is_datagram(id_);
    end(is_refused ? DCGYM_HTTP_REFUSED : DCGYM_HTTP_RESET);
}

void RequestRun::accepted_by(std::size_t server) {
    result_.server = static_cast<std::int32_t>(server);
}

void RequestRun::rejected_by(std::size_t server) {
    accepted_by(server);
    was_rejected_ = true;
    // Over TCP a reset follows.
    if (plan_->is_datagram(id_))
        end(DCGYM_HTTP_REJECTED);
}

void RequestRun::lost_by(std::size_t server) {
    accepted_by(server);
    was_lost_ = true;
}

void RequestRun::due() {
    const auto alive = shared_from_this();
    if (ended_)
        return close_abortively();
    end(DCGYM_HTTP_TIMED_OUT);
}

void RequestRun::end(dcgym_http_outcome outcome) {
    if (ended_)
        return;
    ended_ = true;
    result_.end_ns = now_ns();
    result_.outcome = outcome;
    const auto alive = shared_from_this();
    owner_.ended(*this);
    if (plan_->is_datagram(id_))
        return close();
    if (outcome == DCGYM_HTTP_CUT)
        return close_silently();
    if (outcome != DCGYM_HTTP_FINISHED && outcome != DCGYM_HTTP_FAILED)
        return close_abortively();
    world_.timetable.set(*this, now_ns() + kCloseNs);
    await_close();
}

void RequestRun::await_close() {
    char byte = 0;
    const ssize_t got = recv(socket_.native_handle(), &byte, 1, 0);
    if (got < 0 && would_block())
        return wait(Descriptor::wait_read, &RequestRun::await_close);
    if (got == 0)
        close();
    else
        close_abortively();
}

void RequestRun::close_silently() {
    if (socket_.is_open())
        set_silent_close(socket_.native_handle());
    close();
}

void RequestRun::close_abortively() {
    if (socket_.is_open())
        set_abortive_close(socket_.native_handle());
    close();
}

void RequestRun::close() {
    const auto alive = shared_from_this();
    world_.timetable.cancel(*this);
    asio::error_code ignored;
    socket_.close(ignored);
    owner_.closed(*this);
}

} // namespace dcgym
