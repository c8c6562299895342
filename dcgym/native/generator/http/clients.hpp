// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "messages.hpp"
#include "request.hpp"

namespace dcgym {

/// Executes a plan of requests: starts them on time, however many are still open.
class HttpClients final : private RequestRun::Owner, private Timetable::Entry {
  public:
    HttpClients(World &world, ConnectionRegistry &registry, MessageBoard &board);
    ~HttpClients() override { stop(); }

    /// Replaces the plan; what still ran is cut.
    void load(RequestPlan plan);
    /// Begins the plan; its time 0 is start_ns.
    void start(std::int64_t start_ns);
    /// Cuts every request; returns how many there were.
    std::size_t stop();
    /// Shows the counters; to be called every few milliseconds.
    void publish();

  private:
    void due() override;
    void launch(std::size_t id, std::int64_t planned_ns);
    void ended(RequestRun &run) override;
    void closed(RequestRun &run) override;

    World &world_;
    ConnectionRegistry &registry_;
    MessageBoard &board_; /* whose counts are shown beside the plan's */
    std::shared_ptr<const RequestPlan> plan_;
    std::vector<std::shared_ptr<RequestRun>> runs_;
    /* Have ended; their connections are not closed yet. */
    std::unordered_map<const RequestRun *, std::shared_ptr<RequestRun>> closing_;
    std::size_t next_ = 0; /* in the plan's order by start */
    std::int64_t start_ns_ = 0;
    std::uint64_t late_starts_ = 0;
};

} // namespace dcgym
