// SPDX-License-Identifier: Apache-2.0
// What a simulation reports of itself, in constant memory.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "flow.hpp"

namespace dcgym::simulation {

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

// A finished flow; the dtype of BalancingTwin.records.
struct Record {
    int64_t arrival_ns, served_ns, end_ns, cpu_ns, io_ns;
    uint64_t flow;
    uint16_t application, balancer, server;
    uint8_t outcome, tracked;
};

// Running averages of the evenness of a vector over the servers.
struct Evenness {
    double jain = 0;
    double overprovision = 0;
    uint64_t samples = 0;

    void add(const std::vector<double> &load);
};

struct Statistics {
    explicit Statistics(size_t applications = 0) : completion(applications) {}

    uint64_t arrivals = 0;
    std::array<uint64_t, 4> outcomes{}; // by Outcome
    uint64_t pcc_violations = 0;
    uint64_t untracked = 0;
    uint64_t records_dropped = 0;
    std::vector<CompletionTimes> completion; // by application
    Evenness queue, remaining;
};

} // namespace dcgym::simulation
