// SPDX-License-Identifier: Apache-2.0
// The future: a tournament of leaves, each with the time of its next event.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "prefetch.hpp"

namespace dcgym::twin::packets {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

// The least time wins; of equal times the leaf with the lower number. A change costs one comparison
// a level, whatever it is, which no heap can say; none of them is a jump.
class EventTree {
  public:
    void reset(uint32_t leaves) {
        size_ = std::bit_ceil(leaves < 2 ? 2 : leaves);
        times_.assign(size_, never);
        winners_.resize(2 * size_t{size_});
        for (uint32_t leaf = 0; leaf < size_; leaf++)
            winners_[size_ + leaf] = leaf;
        for (uint32_t at = size_ - 1; at > 0; at--)
            winners_[at] = winners_[2 * at];
    }

    // Keeps the times that are there.
    void grow(uint32_t leaves) {
        const std::vector<int64_t> before = times_;
        reset(leaves);
        for (uint32_t leaf = 0; leaf < before.size(); leaf++)
            if (before[leaf] != never)
                set(leaf, before[leaf]);
    }

    uint32_t leaves() const { return size_; }
    uint32_t first() const { return winners_[1]; }
    int64_t first_ns() const { return times_[winners_[1]]; }
    int64_t time_of(uint32_t leaf) const { return times_[leaf]; }

    void set(uint32_t leaf, int64_t time_ns) {
        times_[leaf] = time_ns;
        int64_t best = time_ns;
        uint32_t winner = leaf;
        for (uint32_t at = size_ + leaf; at > 1; at /= 2) {
            const uint32_t sibling = winners_[at ^ 1];
            const int64_t other = times_[sibling];
            // The one on the left has the lower number. No time is negative.
            const bool wins = other - static_cast<int64_t>(at & 1) < best;
            best = wins ? other : best;
            winner = wins ? sibling : winner;
            winners_[at / 2] = winner;
        }
    }

    void fetch_all() const {
        fetch(times_.data(), times_.size() * sizeof(int64_t));
        fetch(winners_.data(), winners_.size() * sizeof(uint32_t));
    }

    void set_if_sooner(uint32_t leaf, int64_t time_ns) {
        if (time_ns < times_[leaf])
            set(leaf, time_ns);
    }

  private:
    uint32_t size_ = 0;
    std::vector<int64_t> times_;
    std::vector<uint32_t> winners_; // the root is 1, the children of n are 2 n and 2 n + 1
};

} // namespace dcgym::twin::packets
