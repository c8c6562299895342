// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "clients.hpp"
#include "server.hpp"

namespace dcgym {

/// The memory in which the servers show their state.
class ServerRows {
  public:
    ServerRows() = default;
    ServerRows(int fd, std::size_t n_servers);
    ServerRows(const ServerRows &) = delete;
    ServerRows &operator=(const ServerRows &) = delete;
    ~ServerRows();

    dcgym_http_server &row(std::size_t number) { return rows_[number]; }

  private:
    dcgym_http_server *rows_ = nullptr;
    std::size_t size_bytes_ = 0;
};

/// All HTTP servers, and the clients with their plan.
class Http final : private Timetable::Entry {
  public:
    explicit Http(World &world);

    /// Replaces all servers; fd is the memory of their rows.
    void set_servers(int fd, const std::vector<HttpServerSpec> &specs);
    /// Throws std::invalid_argument where there is no such server.
    HttpServer &server(std::size_t number);
    std::size_t n_servers() const { return servers_.size(); }
    HttpClients &clients() { return clients_; }
    /// Lets the servers answer probes and tell the balancers when they are idle.
    void set_messages(MessageBoard board);
    MessageBoard &board() { return board_; }

  private:
    void due() override;

    World &world_;
    ConnectionRegistry registry_;
    MessageBoard board_;
    std::unique_ptr<ServerRows> rows_;
    std::vector<std::unique_ptr<HttpServer>> servers_;
    HttpClients clients_;
    std::int64_t next_tick_ns_;
};

} // namespace dcgym
