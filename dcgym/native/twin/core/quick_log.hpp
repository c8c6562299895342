// SPDX-License-Identifier: Apache-2.0
// Whole numbers made of a logarithm, in a third of the time and without a bit of difference.
//
// portable_log divides and evaluates a long polynomial. Where its value is only rounded to whole
// nanoseconds, an estimate is enough nearly always: it brackets the value, and if both ends round
// alike, so does everything between them. Else portable_log itself decides.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "random.hpp"

namespace dcgym::twin {

class QuickLog {
  public:
    QuickLog();

    // The logarithm of a normal number, off by at most margin(of the estimate).
    double estimate(double x) const {
        const auto bits = std::bit_cast<uint64_t>(x);
        const auto exponent = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
        const Row &row = rows_[(bits >> (52 - index_bits)) & (rows - 1)];
        const double mantissa =
            std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
        const double r = mantissa * row.inverse - 1; // |r| < 2^-7.9
        const double square = r * r;
        const double head = r - square * 0.5;
        const double tail = (1.0 / 3 - r * 0.25) + square * (0.2 - r * (1.0 / 6));
        return exponent * 0.6931471805599453 + (row.log + (head + square * r * tail));
    }
    // Series cut at r^7 / 7 < 2^-58; roundings of the product, the sums and the table.
    static double margin(double estimate) {
        return 0x1p-50 + (estimate < 0 ? -estimate : estimate) * 0x1p-50;
    }

  private:
    static constexpr int index_bits = 7;
    static constexpr uint64_t rows = 1 << index_bits;
    struct Row {
        double inverse, log; // of the middle of the row, and minus the logarithm of that inverse
    };
    std::array<Row, rows> rows_;
};

extern const QuickLog quick_log;

// Equals finish(portable_log(x)) for a function that never turns back, from numbers to whole ones.
template <typename Finish> int64_t whole_of_log(double x, Finish &&finish) {
    const double estimate = quick_log.estimate(x), margin = QuickLog::margin(estimate);
    const int64_t low = finish(estimate - margin), high = finish(estimate + margin);
    return low == high ? low : finish(portable_log(x));
}

} // namespace dcgym::twin
