// SPDX-License-Identifier: Apache-2.0
#include "flow.hpp"

#include <limits>

#include "core/clock.hpp"

namespace dcgym {

Run::Run(World &world, RunSpec spec, Ended ended)
    : Entry{world.timetable}, world_{world}, spec_{std::move(spec)}, start_ns_{now_ns()},
      on_end_{std::move(ended)} {}

std::int64_t Run::deadline_ns() const {
    if (spec_.duration_ns == kUnlimited)
        return std::numeric_limits<std::int64_t>::max();
    return spec_.planned_start_ns + spec_.duration_ns;
}

void Run::end(dcgym_generator_outcome outcome) {
    if (ended_)
        return;
    ended_ = true;
    if (end_ns_ == 0)
        end_ns_ = now_ns();
    const std::uint64_t bytes = delivered_bytes();
    sample();
    close(outcome);
    world_.timetable.cancel(*this);
    world_.telemetry.append(record(outcome, bytes));
    on_end_(*this, outcome);
}

dcgym_generator_record Run::record(dcgym_generator_outcome outcome, std::uint64_t bytes) const {
    dcgym_generator_record record{};
    record.id = spec_.flow_id;
    record.repetition = spec_.repetition;
    record.src = spec_.src;
    record.dst = spec_.dst;
    record.transport = spec_.udp ? DCGYM_GENERATOR_UDP : DCGYM_GENERATOR_TCP;
    record.outcome = outcome;
    record.planned_start_ns = static_cast<std::uint64_t>(spec_.planned_start_ns);
    record.start_ns = static_cast<std::uint64_t>(start_ns_);
    record.end_ns = static_cast<std::uint64_t>(end_ns_);
    record.bytes = bytes;
    record.srtt_ns = srtt_ns_;
    record.min_rtt_ns = min_rtt_ns_;
    record.retransmits = retransmits_;
    record.out_of_order = out_of_order_;
    record.reorderings = reorderings_;
    record.spurious_retransmits = spurious_retransmits_;
    return record;
}

} // namespace dcgym
