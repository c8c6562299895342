// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "generator.h"

namespace dcgym {

constexpr std::int64_t kUnlimited = DCGYM_GENERATOR_UNLIMITED;

/// One run of one flow: what is sent, where, and when.
struct RunSpec {
    std::uint64_t flow_id = 0;
    std::uint64_t repetition = 0;
    std::size_t src = 0;
    std::size_t dst = 0;
    bool udp = false;
    std::uint16_t port = 0;
    std::int64_t planned_start_ns = 0; /* CLOCK_MONOTONIC */
    std::int64_t size_bytes = kUnlimited;
    std::int64_t duration_ns = kUnlimited;
    std::int64_t rate_bps = kUnlimited; /* of application bytes */
    std::string congestion_control;     /* empty: the host's default */
};

/// The flows that the owner handed over, checked.
class Plan {
  public:
    using Numbers = std::vector<std::uint32_t>;

    Plan() = default;

    /// Copies a plan out of a memory file (generator.h).
    ///
    /// congestion_controls holds one name a host, empty for the host's default. Throws
    /// std::invalid_argument naming the first wrong flow and its field.
    Plan(int fd, std::size_t n_flows, std::vector<std::string> congestion_controls);

    std::size_t size() const { return flows_.size(); }
    const dcgym_generator_flow &flow(std::size_t id) const { return flows_[id]; }
    const std::string &congestion_control(std::size_t id) const;
    RunSpec run(std::size_t id, std::uint64_t repetition, std::int64_t planned_start_ns) const;

    /// The flows that wait for no other, by rising start; equal starts in the order of the plan.
    const Numbers &by_start() const { return by_start_; }
    /// The flows that wait for the end of this one.
    std::span<const std::uint32_t> successors(std::size_t id) const;

  private:
    void check_flow(std::size_t id) const;
    void sort_starts();
    void sort_successors();

    std::vector<dcgym_generator_flow> flows_;
    std::vector<std::string> congestion_controls_;
    Numbers by_start_;
    Numbers first_successor_; /* of each flow, in the next list; one more entry ends the last */
    Numbers successors_;
};

} // namespace dcgym
