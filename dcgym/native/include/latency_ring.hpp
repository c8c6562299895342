// SPDX-License-Identifier: Apache-2.0
// What a server knows of its requests' latencies, and answers probes from: twin and generator.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace dcgym {

// The last latencies with the load they met.
class LatencyRing {
  public:
    static constexpr size_t size = 64; // our choice; the paper does not print one

    void add(uint32_t in_flight, int64_t latency_ns) {
        samples_[count_++ % size] = {in_flight, latency_ns};
    }

    // Median of the latencies that were sampled at this load, or the nearest one with samples; 0
    // without any.
    int64_t estimate(uint32_t in_flight) const {
        const size_t n = std::min(count_, size);
        const auto distance = [in_flight](uint32_t load) {
            return load > in_flight ? load - in_flight : in_flight - load;
        };
        uint32_t nearest = 0xffffffff;
        for (size_t i = 0; i < n; i++)
            nearest = std::min(nearest, distance(samples_[i].in_flight));
        std::array<int64_t, size> found{};
        size_t used = 0;
        for (size_t i = 0; i < n; i++)
            if (distance(samples_[i].in_flight) == nearest)
                found[used++] = samples_[i].latency_ns;
        if (used == 0)
            return 0;
        const auto middle = found.begin() + static_cast<ptrdiff_t>((used - 1) / 2);
        std::nth_element(found.begin(), middle, found.begin() + static_cast<ptrdiff_t>(used));
        return *middle;
    }

  private:
    struct Sample {
        uint32_t in_flight;
        int64_t latency_ns;
    };
    std::array<Sample, size> samples_{};
    size_t count_ = 0;
};

} // namespace dcgym
