// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "address.hpp"
#include "core/world.hpp"
#include "message.hpp"
#include "query.hpp"

namespace dcgym {

class HttpConnection;

/// What a connection needs of its server.
class ConnectionOwner {
  public:
    virtual ~ConnectionOwner() = default;
    virtual std::size_t number() const = 0;
    /// Whether connections may stay open after a response.
    virtual bool may_keep_alive() const = 0;
    /// A request must be whole, the next one come, and a response be taken, within this time.
    virtual std::int64_t idle_timeout_ns() const = 0;
    /// Names of what a request may ask for.
    virtual ResourceNames resources() const = 0;
    /// Takes a request up; false where the backlog is full.
    virtual bool serve(HttpConnection &connection, const Work &work) = 0;
    /// Called once, when a connection gives up the place that was kept for its first request.
    virtual void place_free() = 0;
    /// Called once, when the connection is about to be reset.
    virtual void resets(const HttpConnection &connection) = 0;
    /// Called once, when the connection is closed.
    virtual void closed(HttpConnection &connection) = 0;
};

/// One connection of a client to a server, which sends one request after the other.
class HttpConnection final : public std::enable_shared_from_this<HttpConnection>,
                             private Timetable::Entry {
  public:
    enum class Close { orderly, abortive, silent };

    HttpConnection(World &world, ConnectionOwner &owner, std::uint64_t ticket, Fd socket,
                   const SocketAddress::Key &client);

    void begin() { read_some(); }
    /// The service of the request under way has ended.
    void respond();
    /// Answers the request with an error.
    void fail();
    void close(Close how);

    std::uint64_t ticket() const { return ticket_; }
    const SocketAddress::Key &client() const { return client_; }
    /// Whether a place in the backlog is kept for its first request.
    bool holds_place() const { return holds_place_; }
    void leave_place();
    /// Whether it waits for a further request.
    bool is_idle() const { return state_ == State::reading && !holds_place_; }

  private:
    enum class State { reading, served, writing, draining, closed };

    void due() override;
    void wait_read();
    void read_some();
    void take(std::string_view bytes);
    void handle(const HttpRequest &request);
    void answer(unsigned status, std::uint64_t body_bytes, bool is_last);
    void write_some();
    ssize_t write_chunk();
    void written();
    void drain();

    World &world_;
    ConnectionOwner &owner_;
    const std::uint64_t ticket_;
    const SocketAddress::Key client_;
    asio::posix::stream_descriptor socket_;
    RequestReader reader_;
    State state_ = State::reading;
    std::uint64_t wanted_bytes_ = 0; /* of the body that was asked for */
    std::string header_;             /* not yet written */
    std::uint64_t body_bytes_ = 0;   /* not yet written */
    std::uint64_t drained_bytes_ = 0;
    bool holds_place_ = true;
    bool head_ = false;
    bool keep_alive_ = false;
    bool must_drain_ = false;
};

} // namespace dcgym
