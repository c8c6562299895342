// SPDX-License-Identifier: Apache-2.0
// The least (2^shift q + 1) / w of a pool, kept up to date: a tournament over the positions, where
// dcgym_least_delay of rules.h looks at all of them. From the same state both choose the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rules.h"

namespace dcgym::twin::balancing {

class DelayTree {
  public:
    // Weight null stands for equal weights; queues are by server number.
    void build(const std::vector<uint16_t> &servers, const uint32_t *weight,
               const std::vector<uint32_t> &queues, uint32_t shift);
    void clear() { leaves_ = 0; }
    bool empty() const { return leaves_ == 0; }

    void update(size_t position, uint32_t queue);
    uint32_t choose(__u64 *random) const;

  private:
    // The least delay below, as a fraction, and how many have it.
    struct Node {
        uint64_t q1;
        uint32_t weight;
        uint32_t ties;

        bool operator==(const Node &) const = default;
    };

    static Node least(const Node &left, const Node &right);

    size_t leaves_ = 0; // a power of two; those behind the pool's end have no ties and lose
    uint32_t shift_ = 0;
    std::vector<Node> nodes_; // the root is 1, the children of i are 2 i and 2 i + 1
};

} // namespace dcgym::twin::balancing
