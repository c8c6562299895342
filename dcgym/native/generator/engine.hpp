// SPDX-License-Identifier: MIT
#pragma once

#include <asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "flow.hpp"
#include "listeners.hpp"

namespace dcgym {

/// Executes a plan: starts the runs on time, samples them, publishes the counters.
class Engine {
  public:
    explicit Engine(World &world);

    void clear_plan();
    void add_flow(const FlowSpec &spec);
    void start(std::int64_t start_ns);
    /// Cuts every run; returns how many there were.
    std::size_t stop();

  private:
    struct Flow {
        Flow(World &world, const FlowSpec &flow_spec) : spec{flow_spec}, timer{world.io} {}
        FlowSpec spec;
        asio::steady_timer timer;
        std::uint64_t repetitions_done = 0;
        std::int64_t planned_start_ns = 0;
        bool exhausted = false;
    };

    void open_listener(const FlowSpec &spec);
    void schedule(Flow &flow, std::int64_t time_ns);
    void launch(Flow &flow);
    void ended(Flow &flow, Run &run, dcgym_generator_outcome outcome);
    void forget(const Run &run);
    void sample_some();
    void set_host_gauges();
    void publish();
    void schedule_tick();

    World &world_;
    Listeners listeners_;
    std::vector<std::unique_ptr<Flow>> flows_;
    std::vector<std::shared_ptr<Run>> runs_;
    asio::steady_timer tick_;
    std::int64_t next_tick_ns_;
    std::size_t next_sample_ = 0;
    std::int64_t start_ns_ = 0; /* 0: stopped */
    std::uint64_t flows_exhausted_ = 0;
    std::uint64_t runs_finished_ = 0;
};

} // namespace dcgym
