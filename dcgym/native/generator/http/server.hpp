// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/agenda.hpp"
#include "http.h"
#include "latency_ring.hpp"
#include "connection.hpp"
#include "datagrams.hpp"
#include "messages.hpp"
#include "registry.hpp"
#include "service.hpp"

namespace dcgym {

/// What a server is.
struct HttpServerSpec {
    std::size_t host = 0;
    std::string ip; /* empty: every address of the host's namespace */
    std::uint16_t port = 0;
    bool is_burnt = false;
    std::uint32_t backlog = 0; /* requests that may wait for the first resource */
    std::int64_t idle_timeout_ns = 0;
    std::vector<std::string> resources; /* names of the station's, in its order */
    StationConfig station;
};

/// What a server does wrong.
struct ServerFaults {
    double fail_share = 0;    /* of the requests that it answers with status 503 at once */
    double gray_share = 0;    /* of the requests that are ten times the work */
    double report_factor = 1; /* of the load that it tells balancers to the true one */
};

/// An HTTP/1.1 server: its socket, its connections, its resources. At every address of its host
/// it also takes requests as datagrams, each answered by one.
class HttpServer final : private ConnectionOwner, private Timetable::Entry {
  public:
    /// Listens at once; row is where its state is shown.
    HttpServer(World &world, ConnectionRegistry &registry, MessageBoard &board, std::size_t number,
               HttpServerSpec spec, dcgym_http_server &row);
    ~HttpServer() override;

    /// Takes no more connections, and finishes the requests that it has.
    void drain();
    /// Closes everything at once.
    void kill(HttpConnection::Close how);
    /// Begins anew, with empty queues.
    void restart();
    /// Also forgets changes of its speed, and what it has counted.
    void reset();
    void set_speed(double factor);
    void set_colocated(double processes);
    /// What is wrong with it; reset() forgets it.
    void set_faults(const ServerFaults &faults) { faults_ = faults; }
    const ServerFaults &faults() const { return faults_; }
    /// Answers probes from now on, if there are balancers that may send any.
    void open_messages();
    /// What is to be done with this server later; reset() forgets it.
    Agenda &agenda() { return agenda_; }
    /// Shows the state; to be called every few milliseconds.
    void publish();

  private:
    std::size_t number() const override { return number_; }
    bool may_keep_alive() const override { return listener_.is_open(); }
    std::int64_t idle_timeout_ns() const override { return spec_.idle_timeout_ns; }
    ResourceNames resources() const override { return spec_.resources; }
    bool serve(HttpConnection &connection, const Work &work) override;
    void place_free() override { --handshaking_; }
    void resets(const HttpConnection &connection) override;
    void closed(HttpConnection &connection) override;

    void due() override;
    void open();
    void make_service();
    void wait();
    int accept_one();
    void arrived(const DatagramPeer &peer, std::string_view text);
    void greet(Fd socket, const SocketAddress::Key &key, Greeted *client);
    void reject(Fd socket, Greeted *client);
    bool is_full() const;
    const ResourceConfig &processors() const { return spec_.station.front().config; }
    std::uint32_t queue() const;
    bool draw(double share) { return share > 0 && board_.draw() < share; }
    void begin_service(std::uint64_t ticket, std::vector<ServiceStage> stages);
    void note_service(std::int64_t service_ns);
    void note_answer(std::uint32_t met, std::int64_t received_ns);
    void answer(const DatagramPeer &peer, bool refused, std::uint64_t bytes);
    MessagePort::Load answer_probe();
    void ended(const ServiceStation::Ended &job);

    World &world_;
    ConnectionRegistry &registry_;
    MessageBoard &board_;
    const std::size_t number_;
    const HttpServerSpec spec_;
    dcgym_http_server &row_;
    asio::posix::stream_descriptor listener_;
    Agenda agenda_;
    std::unique_ptr<Service> service_;
    std::unordered_map<std::uint64_t, std::shared_ptr<HttpConnection>> connections_;
    struct Asked {
        DatagramPeer peer;
        std::uint64_t bytes;
    };
    std::unique_ptr<DatagramPort> datagrams_;
    std::unordered_map<std::uint64_t, Asked> asked_; /* by datagram, still to be answered */
    std::uint64_t next_ticket_ = 0;
    std::uint32_t handshaking_ = 0; /* connections whose first request is still to come */
    struct Met {
        std::uint32_t in_flight;
        std::int64_t received_ns;
    };
    std::unique_ptr<MessagePort> messages_;
    std::unordered_map<std::uint64_t, Met> met_; /* by request in service */
    LatencyRing latencies_;
    ServerFaults faults_;
    double factor_ = 1;
    double colocated_ = 0;
    std::uint64_t accepted_ = 0;
    std::uint64_t completed_ = 0;
    std::uint64_t rejected_ = 0;
    double mean_service_ns_ = 0;
    std::int64_t busy_ns_ = 0;  /* processors in use, summed over the time until */
    std::int64_t shown_ns_ = 0; /* this, when the row was written last */
    bool is_up_ = false;
    std::uint64_t openings_ = 0; /* how often it began to listen */
    /* What the event loop still holds for this server may outlive it. */
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

} // namespace dcgym
