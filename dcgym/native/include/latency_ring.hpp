// SPDX-License-Identifier: Apache-2.0
// What a server knows of its requests' latencies, and answers probes from: twin and generator.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace dcgym {

// The latencies of late with the load they met. What is late is told by probes, of which every
// server gets as many, whatever its requests: without an age a server that is left out would tell
// for ever what it was like when it had too much. Seconds would be many requests here and few
// there.
class LatencyRing {
  public:
    // Our choice, both; the paper prints neither.
    static constexpr size_t size = 128;
    static constexpr uint64_t age = 200; // probes; at three a request, 67 requests of an even share

    // No latency is 0: that stands for an unknown one.
    void add(uint32_t in_flight, int64_t latency_ns) {
        samples_[count_++ % size] = {probes_, std::max<int64_t>(latency_ns, 1), in_flight};
    }

    // A probe comes: median of the latencies that were sampled at this load, or the nearest one
    // with samples; 0 without any.
    int64_t answer(uint32_t in_flight) {
        const uint64_t oldest = ++probes_ > age ? probes_ - age : 0;
        const size_t n = std::min(count_, size);
        const auto distance = [in_flight](uint32_t load) {
            return load > in_flight ? load - in_flight : in_flight - load;
        };
        uint32_t nearest = 0xffffffff;
        for (size_t i = 0; i < n; i++)
            if (samples_[i].probes >= oldest)
                nearest = std::min(nearest, distance(samples_[i].in_flight));
        std::array<int64_t, size> found{};
        size_t used = 0;
        for (size_t i = 0; i < n; i++)
            if (samples_[i].probes >= oldest && distance(samples_[i].in_flight) == nearest)
                found[used++] = samples_[i].latency_ns;
        if (used == 0)
            return 0;
        const auto middle = found.begin() + static_cast<ptrdiff_t>((used - 1) / 2);
        std::nth_element(found.begin(), middle, found.begin() + static_cast<ptrdiff_t>(used));
        return *middle;
    }

  private:
    struct Sample {
        uint64_t probes; // that had come before
        int64_t latency_ns;
        uint32_t in_flight;
    };
    std::array<Sample, size> samples_{};
    size_t count_ = 0;
    uint64_t probes_ = 0;
};

} // namespace dcgym
