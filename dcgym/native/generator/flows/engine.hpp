// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/closer.hpp"
#include "flow.hpp"
#include "listeners.hpp"
#include "probes.hpp"
#include "udp_pacing.hpp"

namespace dcgym {

/// Executes a plan: starts the runs on time, samples them, publishes the counters.
class Engine {
  public:
    explicit Engine(World &world);

    /// Replaces the plan; what still ran is cut.
    void load(Plan plan);
    /// Begins the plan; its time 0 is start_ns.
    void start(std::int64_t start_ns);
    /// Cuts every run; returns how many there were.
    std::size_t stop();
    /// Begins to probe between these pairs of hosts.
    void set_probes(const std::vector<std::pair<std::size_t, std::size_t>> &pairs,
                    std::int64_t period_ns);

  private:
    /// Wakes the engine for a purpose.
    class Alarm final : public Timetable::Entry {
      public:
        Alarm(Timetable &timetable, std::function<void()> ring)
            : Entry{timetable}, ring_{std::move(ring)} {}

      private:
        // A copy, because what it does may replace this alarm.
        void due() override { std::function<void()>{ring_}(); }
        std::function<void()> ring_;
    };

    void start_due();
    void launch(std::size_t id, std::uint64_t repetition, std::int64_t planned_start_ns);
    std::shared_ptr<Run> make_run(RunSpec spec);
    void count_start(const Run &run);
    void ended(Run &run, dcgym_generator_outcome outcome);
    void forget(const Run &run);
    void go_on(const Run &run, dcgym_generator_outcome outcome);
    void launch_at(std::size_t id, std::uint64_t repetition, std::int64_t planned_start_ns);
    void open_listeners();
    void tick();
    void sample_some();
    void publish();

    World &world_;
    Listeners listeners_;
    SocketCloser closer_;
    UdpPacing pacing_;
    Plan plan_;
    std::vector<std::shared_ptr<Run>> runs_;
    std::vector<std::unique_ptr<Probe>> probes_;
    std::unordered_map<std::size_t, std::unique_ptr<Alarm>> waiting_; /* by flow */
    Alarm starts_;
    Alarm tick_;
    std::int64_t next_tick_ns_;
    std::size_t next_start_ = 0; /* in the plan's order by start */
    std::size_t next_sample_ = 0;
    std::int64_t start_ns_ = 0; /* 0: stopped */
    std::uint64_t flows_exhausted_ = 0;
    std::uint64_t runs_finished_ = 0;
    std::uint64_t starts_count_ = 0;
    std::uint64_t late_starts_ = 0;
};

} // namespace dcgym
