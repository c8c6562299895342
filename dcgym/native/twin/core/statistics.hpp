// SPDX-License-Identifier: Apache-2.0
// Figures in constant memory, whatever the number of samples.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dcgym::twin {

// Histogram with 64 buckets per power of two: a percentile is off by 1.6 % at most.
class Histogram {
  public:
    void add(int64_t value) { counts_[index(static_cast<uint64_t>(value))]++; }
    // The value below which this fraction of the samples lies, linear within a bucket.
    double quantile(double fraction, uint64_t total) const;

  private:
    static constexpr int sub_bits = 6;
    static constexpr uint64_t sub_buckets = 1 << sub_bits;

    static size_t index(uint64_t value) {
        if (value < sub_buckets)
            return value;
        const int shift = std::bit_width(value) - 1 - sub_bits;
        return ((static_cast<size_t>(shift) + 1) << sub_bits) +
               ((value >> shift) & (sub_buckets - 1));
    }
    static double lower_bound(size_t index);

    std::array<uint32_t, (64 - sub_bits + 1) << sub_bits> counts_{};
};

struct CompletionTimes {
    uint64_t count = 0;
    int64_t sum_ns = 0;
    double squares = 0; // ns^2
    Histogram histogram;

    void add(int64_t value_ns) {
        count++;
        sum_ns += value_ns;
        squares += static_cast<double>(value_ns) * static_cast<double>(value_ns);
        histogram.add(value_ns);
    }
};

// Running averages of how evenly a load is spread.
struct Fairness {
    double jain = 0;
    double overprovision = 0;
    uint64_t samples = 0;

    void add(const std::vector<double> &load);
};

} // namespace dcgym::twin
