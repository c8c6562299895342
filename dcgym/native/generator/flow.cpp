// SPDX-License-Identifier: MIT
#include "flow.hpp"

#include <limits>
#include <utility>

#include "clock.hpp"

namespace dcgym {

Run::Run(World &world, const FlowSpec &spec, std::uint64_t repetition,
         std::int64_t planned_start_ns, Ended ended)
    : world_{world}, spec_{spec}, repetition_{repetition},
      planned_start_ns_{planned_start_ns}, start_ns_{now_ns()}, on_end_{std::move(ended)} {}

std::int64_t Run::deadline_ns() const {
    if (spec_.duration_ns == kUnlimited)
        return std::numeric_limits<std::int64_t>::max();
    return planned_start_ns_ + spec_.duration_ns;
}

void Run::end(dcgym_generator_outcome outcome) {
    if (ended_)
        return;
    ended_ = true;
    sample();
    close();
    if (end_ns_ == 0)
        end_ns_ = now_ns();
    dcgym_generator_record record{};
    record.id = spec_.id;
    record.repetition = repetition_;
    record.src = spec_.src;
    record.dst = spec_.dst;
    record.transport = spec_.udp ? DCGYM_GENERATOR_UDP : DCGYM_GENERATOR_TCP;
    record.outcome = outcome;
    record.planned_start_ns = static_cast<std::uint64_t>(planned_start_ns_);
    record.start_ns = static_cast<std::uint64_t>(start_ns_);
    record.end_ns = static_cast<std::uint64_t>(end_ns_);
    record.bytes = delivered_bytes();
    record.srtt_ns = srtt_ns_;
    record.min_rtt_ns = min_rtt_ns_;
    record.retransmits = retransmits_;
    world_.telemetry.append(record);
    on_end_(*this, outcome);
}

} // namespace dcgym
