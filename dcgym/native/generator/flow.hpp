// SPDX-License-Identifier: MIT
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "generator.h"
#include "hosts.hpp"
#include "telemetry.hpp"

namespace dcgym {

constexpr std::int64_t kUnlimited = -1;

/// One line of the plan.
struct FlowSpec {
    std::uint64_t id = 0;
    std::size_t src = 0;
    std::size_t dst = 0;
    bool udp = false;
    std::uint16_t port = 0;
    std::int64_t start_ns = 0;
    std::int64_t size_bytes = kUnlimited;
    std::int64_t duration_ns = kUnlimited;
    std::int64_t rate_bps = kUnlimited; /* of application bytes */
    std::uint64_t repetitions = 1;      /* 0 means for ever */
    std::int64_t gap_ns = 0;
    std::string congestion_control; /* empty: the host's default */
};

/// What every run shares.
struct World {
    asio::io_context &io;
    Hosts &hosts;
    Telemetry &telemetry;
};

/// One repetition of one flow, from its first packet to its record.
class Run : public std::enable_shared_from_this<Run> {
  public:
    using Ended = std::function<void(Run &, dcgym_generator_outcome)>;

    Run(World &world, const FlowSpec &spec, std::uint64_t repetition, std::int64_t planned_start_ns,
        Ended ended);
    virtual ~Run() = default;
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    /// Opens the sockets and starts to send.
    virtual void begin() = 0;
    /// Brings the hosts' counters up to date.
    virtual void sample() = 0;
    /// Closes the sockets, writes the record, and tells the owner. Only the first call counts.
    void end(dcgym_generator_outcome outcome);

    const FlowSpec &spec() const { return spec_; }
    std::uint64_t srtt_ns() const { return srtt_ns_; }
    std::uint64_t min_rtt_ns() const { return min_rtt_ns_; }
    std::int64_t end_ns() const { return end_ns_; }

  protected:
    virtual void close() = 0;
    virtual std::uint64_t delivered_bytes() const = 0;

    dcgym_generator_host &source() { return world_.telemetry.host(spec_.src); }
    dcgym_generator_host &sink() { return world_.telemetry.host(spec_.dst); }
    std::int64_t deadline_ns() const;

    World &world_;
    const FlowSpec spec_;
    const std::uint64_t repetition_;
    const std::int64_t planned_start_ns_;
    const std::int64_t start_ns_;
    std::int64_t end_ns_ = 0; /* set early by a run that knows better than "now" */
    std::uint64_t srtt_ns_ = 0;
    std::uint64_t min_rtt_ns_ = 0;
    std::uint64_t retransmits_ = 0;
    bool ended_ = false;

  private:
    Ended on_end_;
};

} // namespace dcgym
