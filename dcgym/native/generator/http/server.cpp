// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "burnt.hpp"
#include "core/socket_options.hpp"
#include "sequence_lock.hpp"

namespace dcgym {
namespace {

/* Every connection is accepted at once; whether it may stay is decided then. */
constexpr int kKernelBacklog = 4096;
/* Without a free descriptor, the next try comes after this time. */
constexpr std::int64_t kRetryNs = 10'000'000;

/// Opens an IPv6 socket that serves IPv4 too, or an IPv4 one where there is no IPv6.
Fd open_any(World &world, std::size_t host, std::uint16_t port, SocketAddress &local) {
    try {
        Fd socket = world.hosts.open_socket(host, SOCK_STREAM, 0, AF_INET6);
        const int off = 0;
        check(setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)), "V6ONLY");
        local = SocketAddress::any(port);
        return socket;
    } catch (const std::exception &) {
        local = {"0.0.0.0", port};
        return world.hosts.open_socket(host, SOCK_STREAM);
    }
}

Fd open_listener(World &world, const HttpServerSpec &spec) {
    SocketAddress local;
    Fd socket;
    if (spec.ip.empty()) {
        socket = open_any(world, spec.host, spec.port, local);
    } else {
        local = {spec.ip, spec.port};
        socket = world.hosts.open_socket(spec.host, SOCK_STREAM, 0, local.family());
    }
    const int on = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Inherited by the connections: a response is sent as soon as it is there.
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    check(bind(socket.get(), local.raw(), local.length()),
          "bind of the server on " + local.text() + " of host " + std::to_string(spec.host));
    check(listen(socket.get(), kKernelBacklog), "listen");
    return socket;
}

} // namespace

HttpServer::HttpServer(World &world, ConnectionRegistry &registry, MessageBoard &board,
                       std::size_t number, HttpServerSpec spec, dcgym_http_server &row)
    : Entry{world.timetable}, world_{world}, registry_{registry}, board_{board}, number_{number},
      spec_{std::move(spec)}, row_{row}, listener_{world.io}, agenda_{world.timetable} {
    open();
}

HttpServer::~HttpServer() {
    kill(HttpConnection::Close::silent);
}

void HttpServer::open() {
    listener_.assign(open_listener(world_, spec_).release());
    if (spec_.ip.empty())
        datagrams_ = std::make_unique<DatagramPort>(
            world_, spec_.host, spec_.port,
            [this](const DatagramPeer &peer, std::string_view text) { arrived(peer, text); });
    make_service();
    open_messages();
    is_up_ = true;
    ++openings_;
    wait();
    publish();
}

void HttpServer::make_service() {
    const auto on_end = [this](const ServiceStation::Ended &job) { ended(job); };
    if (spec_.is_burnt)
        service_ = std::make_unique<BurntService>(world_, spec_.station, on_end);
    else
        service_ = std::make_unique<TimedService>(world_, spec_.station, on_end);
    service_->set_speed(factor_);
    service_->set_colocated(colocated_);
}

void HttpServer::wait() {
    const std::weak_ptr<bool> alive = alive_;
    listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this, alive](const asio::error_code &error) {
                             if (!error && !alive.expired())
                                 due();
                         });
}

void HttpServer::due() {
    const std::uint64_t opening = openings_;
    // A restart that falls due meanwhile waits for its own connections.
    const auto is_ours = [&] { return listener_.is_open() && openings_ == opening; };
    int error = 0;
    while (is_ours() && error == 0) {
        world_.timetable.serve();
        if (is_ours())
            error = accept_one();
    }
    if (!is_ours())
        return;
    if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS)
        return world_.timetable.set(*this, now_ns() + kRetryNs);
    wait();
}

int HttpServer::accept_one() {
    SocketAddress peer;
    socklen_t length = sizeof(sockaddr_storage);
    Fd socket{
        accept4(listener_.native_handle(), peer.raw(), &length, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (socket.get() < 0)
        return errno == ECONNABORTED || errno == EINTR ? 0 : errno;
    Greeted *const client = registry_.find(peer.key());
    if (is_full())
        reject(std::move(socket), client);
    else
        greet(std::move(socket), peer.key(), client);
    publish();
    return 0;
}

void HttpServer::arrived(const DatagramPeer &peer, std::string_view text) {
    RequestReader reader;
    if (!listener_.is_open() || reader.take(text) != Parsed::whole)
        return;
    const auto work = parse_target(reader.next().target, spec_.resources);
    if (!work)
        return;
    Greeted *const client = registry_.find(peer.from.key());
    if (is_full()) {
        ++rejected_;
        if (client)
            client->rejected_by(number_);
        return publish();
    }
    if (client)
        client->accepted_by(number_);
    ++accepted_;
    if (draw(faults_.fail_share)) {
        ++rejected_;
        note_answer(queue(), now_ns());
        answer(peer, true, 0);
        return publish();
    }
    const std::uint64_t ticket = next_ticket_++;
    asked_.emplace(ticket, Asked{peer, work->bytes});
    begin_service(ticket, work->stages);
    publish();
}

void HttpServer::greet(Fd socket, const SocketAddress::Key &key, Greeted *client) {
    if (client)
        client->accepted_by(number_);
    ++accepted_;
    ++handshaking_;
    const std::uint64_t ticket = next_ticket_++;
    ConnectionOwner &owner = *this;
    const auto connection =
        std::make_shared<HttpConnection>(world_, owner, ticket, std::move(socket), key);
    connections_.emplace(ticket, connection);
    connection->begin();
}

void HttpServer::reject(Fd socket, Greeted *client) {
    ++rejected_;
    if (client)
        client->rejected_by(number_);
    set_abortive_close(socket.get());
}

bool HttpServer::is_full() const {
    const Service::Load load = service_->load();
    const std::uint64_t here = std::uint64_t{handshaking_} + load.waiting + load.on_first;
    return here >= std::uint64_t{processors().slots} + spec_.backlog;
}

bool HttpServer::serve(HttpConnection &connection, const Work &work) {
    const bool had_place = connection.holds_place();
    connection.leave_place();
    if (!had_place && is_full()) {
        ++rejected_;
        return false;
    }
    if (draw(faults_.fail_share)) {
        ++rejected_;
        note_answer(queue(), now_ns());
        connection.fail();
    } else {
        begin_service(connection.ticket(), work.stages);
    }
    publish();
    return true;
}

void HttpServer::ended(const ServiceStation::Ended &job) {
    ++(job.refused ? rejected_ : completed_);
    if (!job.refused)
        note_service(job.end_ns - job.served_ns);
    const auto met = met_.find(job.ticket);
    if (met != met_.end()) {
        const Met found = met->second;
        met_.erase(met);
        note_answer(found.in_flight, found.received_ns);
    }
    const auto found = connections_.find(job.ticket);
    // A server does not know that a connection is broken: it works on.
    if (found != connections_.end()) {
        const auto connection = found->second;
        if (job.refused)
            connection->fail();
        else
            connection->respond();
    }
    const auto asked = asked_.find(job.ticket);
    if (asked != asked_.end()) {
        answer(asked->second.peer, job.refused, asked->second.bytes);
        asked_.erase(asked);
    }
    publish();
}

void HttpServer::answer(const DatagramPeer &peer, bool refused, std::uint64_t bytes) {
    const std::uint64_t sent = refused ? 0 : bytes;
    datagrams_->send(peer, response_header(refused ? 503 : 200, sent, false, number_), sent);
}

void HttpServer::resets(const HttpConnection &connection) {
    if (Greeted *const client = registry_.find(connection.client()))
        client->lost_by(number_);
}

void HttpServer::closed(HttpConnection &connection) {
    connections_.erase(connection.ticket());
}

void HttpServer::drain() {
    asio::error_code ignored;
    listener_.close(ignored);
    std::vector<std::shared_ptr<HttpConnection>> idle;
    for (const auto &[ticket, connection] : connections_)
        if (connection->is_idle())
            idle.push_back(connection);
    for (const auto &connection : idle)
        connection->close(HttpConnection::Close::orderly);
    publish();
}

void HttpServer::kill(HttpConnection::Close how) {
    asio::error_code ignored;
    listener_.close(ignored);
    is_up_ = false;
    datagrams_.reset();
    messages_.reset();
    asked_.clear();
    met_.clear();
    service_.reset();
    const auto connections = std::exchange(connections_, {});
    for (const auto &[ticket, connection] : connections)
        connection->close(how);
    handshaking_ = 0;
    publish();
}

void HttpServer::restart() {
    if (is_up_)
        kill(HttpConnection::Close::abortive);
    mean_service_ns_ = 0;
    latencies_ = {};
    open();
}

void HttpServer::reset() {
    kill(HttpConnection::Close::silent);
    agenda_.clear();
    factor_ = 1;
    colocated_ = 0;
    faults_ = {};
    latencies_ = {};
    accepted_ = completed_ = rejected_ = 0;
    mean_service_ns_ = 0;
    busy_ns_ = 0;
    open();
}

void HttpServer::set_speed(double factor) {
    factor_ = factor;
    if (service_)
        service_->set_speed(factor);
}

void HttpServer::set_colocated(double processes) {
    colocated_ = processes;
    if (service_)
        service_->set_colocated(processes);
}

void HttpServer::publish() {
    const Service::Load load = service_ ? service_->load() : Service::Load{};
    const std::int64_t now = now_ns();
    // Every change of what the processors do is followed by a row of its own.
    if (shown_ns_ != 0)
        busy_ns_ += row_.workers_busy * (now - shown_ns_);
    shown_ns_ = now;
    const SequenceWrite write{row_.sequence};
    __atomic_store_n(&row_.busy, handshaking_ + load.waiting + load.on_first + load.later,
                     __ATOMIC_RELAXED);
    row_.waiting = load.waiting;
    row_.later = load.later;
    const auto workers = static_cast<std::uint16_t>(processors().workers);
    row_.workers_busy = static_cast<std::uint16_t>(std::min<std::size_t>(load.on_first, workers));
    row_.workers = workers;
    row_.accepted = accepted_;
    row_.completed = completed_;
    row_.rejected = rejected_;
    row_.heartbeat_ns = is_up_ ? static_cast<std::uint64_t>(now) : 0;
    row_.mean_service_ns = static_cast<std::uint64_t>(mean_service_ns_);
    row_.busy_ns = static_cast<std::uint64_t>(busy_ns_);
}

} // namespace dcgym
