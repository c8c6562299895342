// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "core/world.hpp"
#include "message.hpp"
#include "plan.hpp"
#include "registry.hpp"

namespace dcgym {

/// One request of a plan, on a connection of its own or as one datagram, from its first packet to
/// its result.
class RequestRun final : public std::enable_shared_from_this<RequestRun>,
                         private Greeted,
                         private Timetable::Entry {
  public:
    /// Told once of the result, and later once that the connection is closed.
    class Owner {
      public:
        virtual ~Owner() = default;
        virtual void ended(RequestRun &run) = 0;
        virtual void closed(RequestRun &run) = 0;
    };

    RequestRun(World &world, ConnectionRegistry &registry, std::shared_ptr<const RequestPlan> plan,
               std::size_t id, Owner &owner);
    ~RequestRun() override;

    /// Opens the connection; the run may have ended on return.
    void begin();
    /// Notes the result, and closes the connection in order. Only the first call counts.
    void end(dcgym_http_outcome outcome);
    /// Closes the connection without a packet; the server is closed too.
    void close_silently();

    std::size_t id() const { return id_; }
    const dcgym_http_result &result() const { return result_; }

    std::size_t place = 0; /* in the owner's list */

  private:
    using Descriptor = asio::posix::stream_descriptor;

    void accepted_by(std::size_t server) override;
    void rejected_by(std::size_t server) override;
    void lost_by(std::size_t server) override;
    void due() override;

    void connect();
    void wait(Descriptor::wait_type what, void (RequestRun::*then)());
    void write_some();
    void read_some();
    void take(const char *data, std::size_t size);
    void await_close();
    void broken();
    void close_abortively();
    void close();

    World &world_;
    ConnectionRegistry &registry_;
    const std::shared_ptr<const RequestPlan> plan_;
    const std::size_t id_;
    Owner &owner_;
    Descriptor socket_;
    SocketAddress::Key key_{};
    ResponseReader reader_;
    std::string message_; /* not yet written */
    dcgym_http_result result_{};
    bool was_rejected_ = false;
    bool was_lost_ = false;
    bool ended_ = false;
};

} // namespace dcgym
