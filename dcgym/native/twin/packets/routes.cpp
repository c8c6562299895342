// SPDX-License-Identifier: Apache-2.0
#include "routes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t key_words = 10; // IPv6 addresses fill four words each, IPv4 the first of them

uint32_t hash_word(uint32_t hash, uint32_t word) {
    word = std::rotl(word * 0xcc9e2d51U, 15) * 0x1b873593U;
    return std::rotl(hash ^ word, 13) * 5 + 0xe6546b64U;
}

uint32_t threshold_of(double probability) {
    return static_cast<uint32_t>(std::min(std::floor(probability * 0x1p32), 0xffffffffp0));
}

} // namespace

// MurmurHash3 x86_32 over whole words; the salt is its seed.
uint32_t hash_flow(const FlowKey &key, uint32_t salt) {
    const uint32_t words[key_words] = {key.source, 0, 0, 0,         key.destination,
                                       0,          0, 0, key.ports, key.protocol};
    uint32_t hash = salt;
    for (const uint32_t word : words)
        hash = hash_word(hash, word);
    hash ^= key_words * 4;
    hash ^= hash >> 16;
    hash *= 0x85ebca6bU;
    hash ^= hash >> 13;
    hash *= 0xc2b2ae35U;
    return hash ^ (hash >> 16);
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
    return has_choice() ? pick(hash_flow(key, salt_)) : slots_[0].port;
}

} // namespace dcgym::twin::packets
