// SPDX-License-Identifier: Apache-2.0
#include "routes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dcgym::twin::packets {
namespace {

uint32_t threshold_of(double probability) {
    return static_cast<uint32_t>(std::min(std::floor(probability * 0x1p32), 0xffffffffp0));
}

} // namespace

uint32_t hash_flow(const FlowKey &key, uint32_t salt) {
    const uint32_t words[DCGYM_FLOW_WORDS] = {key.source, 0, 0, 0,         key.destination,
                                              0,          0, 0, key.ports, key.protocol};
    uint32_t hash = salt ^ key.label;
    for (const uint32_t word : words)
        hash = dcgym_hash_word(hash, word);
    return dcgym_hash_end(hash);
}

// The order of GroupTable (kernel/fabric/groups.cpp): the same weights make the same table.
void Group::set_weights(const double *weights) {
    const size_t n = ports_.size();
    std::vector<double> scaled(weights, weights + n);
    double total = std::accumulate(scaled.begin(), scaled.end(), 0.0);
    if (!(total > 0)) {
        std::fill(scaled.begin(), scaled.end(), 1.0);
        total = static_cast<double>(n);
    }
    for (double &weight : scaled)
        weight /= total / static_cast<double>(n);
    remembered_ = no_member;
    slots_.clear();
    std::vector<size_t> below, above;
    for (size_t i = 0; i < n; i++) {
        slots_.push_back({ports_[i], ports_[i], UINT32_MAX});
        (scaled[i] < 1.0 ? below : above).push_back(i);
    }
    while (!below.empty() && !above.empty()) {
        const size_t small = below.back(), large = above.back();
        below.pop_back();
        slots_[small].threshold = threshold_of(scaled[small]);
        slots_[small].alias = ports_[large];
        scaled[large] -= 1.0 - scaled[small];
        if (scaled[large] < 1.0) {
            above.pop_back();
            below.push_back(large);
        }
    }
}

uint32_t Group::choose(const FlowKey &key) const {
    return has_choice() ? pick(hash_flow(key, salt_)) : slots_[0].ifindex;
}

} // namespace dcgym::twin::packets
