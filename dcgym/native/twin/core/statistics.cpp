// SPDX-License-Identifier: Apache-2.0
#include "statistics.hpp"

#include <algorithm>

namespace dcgym::twin {

double Histogram::lower_bound(size_t index) {
    if (index < sub_buckets)
        return static_cast<double>(index);
    const size_t shift = (index >> sub_bits) - 1;
    return static_cast<double>((index & (sub_buckets - 1)) + sub_buckets) *
           static_cast<double>(1ULL << shift);
}

double Histogram::quantile(double fraction, uint64_t total) const {
    const double wanted = fraction * static_cast<double>(total);
    double below = 0;
    for (size_t i = 0; i < counts_.size(); i++) {
        if (counts_[i] > 0 && below + counts_[i] >= wanted) {
            const double within = (wanted - below) / counts_[i];
            return lower_bound(i) + within * (lower_bound(i + 1) - lower_bound(i));
        }
        below += counts_[i];
    }
    return 0;
}

// Jain's index and the greatest over the mean; nothing to say of an empty system.
void Fairness::add(const std::vector<double> &load) {
    double sum = 0, squares = 0, largest = 0;
    for (const double value : load) {
        sum += value;
        squares += value * value;
        largest = std::max(largest, value);
    }
    if (sum <= 0)
        return;
    const auto n = static_cast<double>(load.size());
    jain += sum * sum / (n * squares);
    overprovision += largest * n / sum;
    samples++;
}

} // namespace dcgym::twin
