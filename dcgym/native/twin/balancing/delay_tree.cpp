// SPDX-License-Identifier: Apache-2.0
#include "delay_tree.hpp"

#include <bit>

namespace dcgym::twin::balancing {
namespace {

// Above any delay of a server, and below 2^64 times any weight.
constexpr uint64_t never = 1ULL << 36;

} // namespace

DelayTree::Node DelayTree::least(const Node &left, const Node &right) {
    const uint64_t a = left.q1 * right.weight, b = right.q1 * left.weight;
    if (a != b)
        return a < b ? left : right;
    return {left.q1, left.weight, left.ties + right.ties};
}

void DelayTree::build(const std::vector<uint16_t> &servers, const uint32_t *weight,
                      const std::vector<uint32_t> &queues, uint32_t shift) {
    leaves_ = std::bit_ceil(servers.size());
    shift_ = shift;
    nodes_.resize(2 * leaves_);
    for (size_t i = 0; i < leaves_; i++)
        nodes_[leaves_ + i] = i < servers.size() ? Node{(uint64_t{queues[servers[i]]} << shift) + 1,
                                                        weight ? weight[i] : 1, 1}
                                                 : Node{never, 1, 0};
    for (size_t i = leaves_ - 1; i > 0; i--)
        nodes_[i] = least(nodes_[2 * i], nodes_[2 * i + 1]);
}

void DelayTree::update(size_t position, uint32_t queue) {
    size_t i = leaves_ + position;
    nodes_[i].q1 = (uint64_t{queue} << shift_) + 1;
    for (i /= 2; i > 0; i /= 2) {
        const Node found = least(nodes_[2 * i], nodes_[2 * i + 1]);
        // Above it nothing changes either.
        if (found == nodes_[i])
            return;
        nodes_[i] = found;
    }
}

uint32_t DelayTree::choose(__u64 *random) const {
    const Node &root = nodes_[1];
    // Chance is used as rules.h uses it: only where there is a tie.
    uint32_t rank = root.ties < 2 ? 0 : static_cast<uint32_t>(dcgym_below(random, root.ties));
    size_t i = 1;
    while (i < leaves_) {
        const Node &left = nodes_[2 * i];
        const bool ties = left.q1 * root.weight == root.q1 * left.weight;
        const uint32_t before = ties ? left.ties : 0;
        i = 2 * i + (rank >= before);
        rank -= rank >= before ? before : 0;
    }
    return static_cast<uint32_t>(i - leaves_);
}

} // namespace dcgym::twin::balancing
