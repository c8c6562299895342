// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace dcgym {

/// How often the UDP flows send, all together.
///
/// A flow sends what is due at every millisecond, so that flows share their wake-ups. Where that
/// would be more calls than one core can make beside its other work, each flow sends less often
/// and more at a time, as segments of one packet (UDP_SEGMENT); the flows take turns.
class UdpPacing {
  public:
    static constexpr std::int64_t kStepNs = 1'000'000;

    void add(std::uint64_t datagrams_per_s) { sends_per_s_ += capped(datagrams_per_s); }
    void remove(std::uint64_t datagrams_per_s) { sends_per_s_ -= capped(datagrams_per_s); }

    /// Time between two bursts of one flow.
    std::int64_t period_ns() const {
        const auto steps = (sends_per_s_ + kMostSendsPerS - 1) / kMostSendsPerS;
        return kStepNs * static_cast<std::int64_t>(std::max<std::uint64_t>(steps, 1));
    }

    /// The first moment after time_ns at which a flow may send.
    std::int64_t next_turn_ns(std::uint64_t flow_id, std::int64_t time_ns) const {
        const std::int64_t period = period_ns();
        const std::int64_t turns = period / kStepNs;
        const std::int64_t phase = kStepNs * (static_cast<std::int64_t>(flow_id) % turns);
        return ((time_ns - phase) / period + 1) * period + phase;
    }

  private:
    static constexpr std::uint64_t kMostSendsPerS = 50'000;

    static std::uint64_t capped(std::uint64_t datagrams_per_s) {
        constexpr std::uint64_t steps_per_s = 1'000'000'000 / kStepNs;
        return std::min(datagrams_per_s, steps_per_s);
    }

    std::uint64_t sends_per_s_ = 0;
};

} // namespace dcgym
