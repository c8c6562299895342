// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator.h"

namespace dcgym {

/// What the readers see besides the hosts' counters.
struct Progress {
    std::uint64_t start_ns = 0;
    std::uint64_t flows_planned = 0;
    std::uint64_t flows_active = 0;
    std::uint64_t flows_finished = 0;
    std::uint64_t starts = 0;
    std::uint64_t late_starts = 0;
    std::uint64_t udp_period_ns = 0;
    bool finished = false;
};

/// The writer of the shared block (generator.h); counters live here until published.
class Telemetry {
  public:
    explicit Telemetry(int shm_fd);
    ~Telemetry();
    Telemetry(const Telemetry &) = delete;
    Telemetry &operator=(const Telemetry &) = delete;

    /// Lays the block out for this many hosts and probes, with all counters zero.
    void configure(std::size_t n_hosts, std::size_t n_probes);
    dcgym_generator_host &host(std::size_t index) { return hosts_[index]; }
    dcgym_generator_probe &probe(std::size_t index) { return probes_[index]; }

    /// Counts a smoothed RTT that was measured at a sender.
    void note_rtt(std::size_t host, std::uint64_t srtt_ns, std::uint64_t min_rtt_ns);
    /// Every flow has been sampled since the last call: shows what was noted, and forgets it.
    void end_round();

    /// Marks the records from here on as those of a new plan.
    void begin_records();
    void append(const dcgym_generator_record &record);
    void publish(const Progress &progress);
    /// When a reader wants the next sample; past or 0: it does not.
    std::int64_t sample_due_ns() const;

  private:
    struct Round {
        std::uint64_t srtt_sum_ns = 0;
        std::uint64_t samples = 0;
        std::uint64_t min_rtt_ns = 0;
    };

    dcgym_generator_header *header() const;

    std::byte *block_ = nullptr;
    std::size_t size_bytes_ = 0;
    std::vector<dcgym_generator_host> hosts_;
    std::vector<dcgym_generator_probe> probes_;
    std::vector<Round> rounds_; /* one a host */
    dcgym_generator_record *ring_ = nullptr;
};

} // namespace dcgym
