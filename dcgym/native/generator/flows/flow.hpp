// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "generator.h"
#include "plan.hpp"
#include "core/world.hpp"

namespace dcgym {

/// One repetition of one flow, from its first packet to its record.
class Run : public std::enable_shared_from_this<Run>, protected Timetable::Entry {
  public:
    using Ended = std::function<void(Run &, dcgym_generator_outcome)>;

    Run(World &world, RunSpec spec, Ended ended);
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    /// Opens the sockets and starts to send; the run may have ended on return.
    virtual void begin() = 0;
    /// Brings the hosts' counters up to date.
    virtual void sample() = 0;
    /// Closes the sockets, writes the record, and tells the owner. Only the first call counts.
    void end(dcgym_generator_outcome outcome);

    const RunSpec &spec() const { return spec_; }
    std::int64_t start_ns() const { return start_ns_; }
    std::int64_t end_ns() const { return end_ns_; }

    std::size_t place = 0; /* in the owner's list */

  protected:
    virtual void close(dcgym_generator_outcome outcome) = 0;
    /// Bytes that the receiving application has read; takes what still waits in the socket.
    virtual std::uint64_t delivered_bytes() = 0;

    dcgym_generator_host &source() { return world_.telemetry.host(spec_.src); }
    dcgym_generator_host &sink() { return world_.telemetry.host(spec_.dst); }
    std::int64_t deadline_ns() const;

    World &world_;
    const RunSpec spec_;
    const std::int64_t start_ns_;
    std::int64_t end_ns_ = 0; /* set early by a run that knows better than "now" */
    std::uint64_t srtt_ns_ = 0;
    std::uint64_t min_rtt_ns_ = 0;
    std::uint64_t retransmits_ = 0;
    std::uint64_t out_of_order_ = 0;
    std::uint64_t reorderings_ = 0;
    std::uint64_t spurious_retransmits_ = 0;
    bool ended_ = false;

  private:
    dcgym_generator_record record(dcgym_generator_outcome outcome, std::uint64_t bytes) const;

    Ended on_end_;
};

} // namespace dcgym
