// SPDX-License-Identifier: Apache-2.0
// Which packets a port marks, by the rules of bpf/fabric/marking.h: a step or RED.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fabric.h"
#include "packet.hpp"
#include "core/random.hpp"

namespace dcgym::twin::packets {

struct MarkingRule {
    uint64_t min_bytes = 0;
    uint64_t max_bytes = 0;   // above the minimum: RED; equal to it: a step
    uint32_t probability = 0; // of DCGYM_PROBABILITY_ONE; 0: no marking
    uint32_t weight = DCGYM_PROBABILITY_ONE;
    uint32_t packet_ns = 0;
};

class Marking {
  public:
    void set(const MarkingRule &rule) {
        rule_ = rule;
        average_ = 0;
        busy_until_ns_ = 0;
        unmarked_ = 0;
    }
    bool is_on() const { return rule_.probability != 0; }

    bool should_mark(uint64_t before, uint32_t bytes, int64_t now_ns, Splitmix &random) {
        if (rule_.max_bytes == rule_.min_bytes)
            return exceeds_step(before + bytes, random);
        return exceeds_red(before, bytes, now_ns, random);
    }

  private:
    static constexpr uint64_t one = 1ULL << 32;

    bool exceeds_step(uint64_t after, Splitmix &random) const {
        if (after <= rule_.min_bytes)
            return false;
        return rule_.probability >= DCGYM_PROBABILITY_ONE ||
               (random.next() & (DCGYM_PROBABILITY_ONE - 1)) < rule_.probability;
    }

    static uint64_t power(uint64_t base, uint32_t exponent) {
        uint64_t result = one;
        for (; exponent != 0; exponent >>= 1) {
            if (exponent & 1)
                result = (result * base) >> 32;
            base = (base * base) >> 32;
        }
        return result;
    }

    void average(uint64_t before, uint32_t bytes, int64_t now_ns) {
        const auto change = static_cast<int64_t>(before << DCGYM_RED_FRACTION_BITS) -
                            static_cast<int64_t>(average_);
        if (before != 0 || rule_.weight == DCGYM_PROBABILITY_ONE) {
            average_ += static_cast<uint64_t>((change * rule_.weight) >> 16);
        } else if (now_ns > busy_until_ns_ && rule_.packet_ns != 0) {
            const auto idle = static_cast<uint64_t>(now_ns - busy_until_ns_) / rule_.packet_ns;
            const uint64_t kept =
                power(static_cast<uint64_t>(DCGYM_PROBABILITY_ONE - rule_.weight) << 16,
                      static_cast<uint32_t>(std::min<uint64_t>(idle, UINT32_MAX)));
            average_ = ((average_ >> 16) * kept) >> 16;
        }
        busy_until_ns_ = now_ns + static_cast<int64_t>((before + bytes) * rule_.packet_ns / 1500);
    }

    bool exceeds_red(uint64_t before, uint32_t bytes, int64_t now_ns, Splitmix &random) {
        average(before, bytes, now_ns);
        const uint64_t queue = average_ >> DCGYM_RED_FRACTION_BITS;
        if (queue < rule_.min_bytes) {
            unmarked_ = 0;
            return false;
        }
        const uint64_t base = (static_cast<uint64_t>(rule_.probability) << 16) *
                              (queue - rule_.min_bytes) / (rule_.max_bytes - rule_.min_bytes);
        const uint64_t spent = unmarked_ * base;
        if (queue < rule_.max_bytes && spent + base < one &&
            (random.next() >> 32) * (one - spent) >= base << 32) {
            unmarked_++;
            return false;
        }
        unmarked_ = 0;
        return true;
    }

    MarkingRule rule_;
    uint64_t average_ = 0;
    int64_t busy_until_ns_ = 0;
    uint64_t unmarked_ = 0;
};

} // namespace dcgym::twin::packets
