// SPDX-License-Identifier: Apache-2.0
#include "reducers.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "random.hpp"

namespace dcgym::twin {
namespace {

constexpr double ln_of_base = -0.10536051565782628; // ln 0.9
constexpr int64_t ms_per_s = 1000;
constexpr int64_t longest_s = 6600; // beyond it the weight is below 1e-301
constexpr double guess_margin = 0.95;

struct DecayTable {
    std::array<double, ms_per_s> of_ms;
    std::array<double, longest_s + 1> of_s; // the last one is 0

    DecayTable() {
        for (size_t i = 0; i < of_ms.size(); i++)
            of_ms[i] = portable_exp(ln_of_base * static_cast<double>(i) / ms_per_s);
        for (size_t i = 0; i < longest_s; i++)
            of_s[i] = portable_exp(ln_of_base * static_cast<double>(i));
        of_s[longest_s] = 0;
    }
    // Of an age of 0 ms or more; an age of 0 gives exactly 1.
    template <typename Integer> double of(Integer age_ms) const {
        const Integer seconds = age_ms / Integer{ms_per_s};
        const Integer row = seconds < Integer{longest_s} ? seconds : Integer{longest_s};
        return of_s[row] * of_ms[age_ms - seconds * Integer{ms_per_s}];
    }
};

const DecayTable &decay_table() {
    static const DecayTable table;
    return table;
}

// Copies the values that reach the floor to the front of out, without branches; returns how many.
template <typename Value> int sift(const Value *values, int n, Value floor, Value *out) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        out[kept] = values[i];
        kept += values[i] >= floor;
    }
    return kept;
}

// NumPy's default percentile: linear between the neighbours of rank 0.9 (n - 1). Only the greatest
// tenth must be put in order. The guess, a value not far below the percentile, saves looking at the
// others; a bad guess costs time and nothing else.
template <typename Value> double ninetieth(const Value *values, int n, Value guess) {
    const double rank = 0.9 * (n - 1);
    const int low = static_cast<int>(rank), wanted = n - low;
    Value top[DCGYM_RESERVOIR_SLOTS + 1]{};
    int found = sift(values, n, guess, top);
    if (found < wanted)
        found = sift(values, n, Value{0}, top);
    for (int i = 1; i < found; i++) { // greatest first; those beyond the wanted drop out
        const Value value = top[i];
        int at = i < wanted ? i : wanted;
        for (; at > 0 && top[at - 1] < value; at--)
            top[at] = top[at - 1];
        top[at] = value;
    }
    const auto below = static_cast<double>(top[wanted - 1]);
    return wanted == 1 ? below
                       : below + (rank - low) * (static_cast<double>(top[wanted - 2]) - below);
}

} // namespace

double decay(int64_t age_ms) {
    return decay_table().of(std::max<int64_t>(0, age_ms));
}

Reduced reduce(const dcgym_reservoir &reservoir, int64_t now_ms, const Reduced &guess) {
    uint32_t values[DCGYM_RESERVOIR_SLOTS];
    uint32_t ages_ms[DCGYM_RESERVOIR_SLOTS];
    int n = 0;
    for (const dcgym_sample &sample : reservoir.samples) {
        values[n] = sample.value_us;
        ages_ms[n] = static_cast<uint32_t>(std::max<int64_t>(0, now_ms - sample.time_ms));
        n += sample.time_ms != 0;
    }
    if (n == 0)
        return {};
    uint64_t sum = 0, squares_low = 0, squares_high = 0;
    for (int i = 0; i < n; i++) {
        const uint64_t square = static_cast<uint64_t>(values[i]) * values[i];
        sum += values[i];
        squares_low += square & 0xffffffff;
        squares_high += square >> 32;
    }
    double decayed[DCGYM_RESERVOIR_SLOTS];
    double decayed_sum = 0;
    const DecayTable &table = decay_table();
    for (int i = 0; i < n; i++) {
        decayed[i] = values[i] * table.of(ages_ms[i]);
        decayed_sum += decayed[i];
    }
    // In integers, n times the sum of squared deviations cannot cancel.
    const auto squares = (static_cast<unsigned __int128>(squares_high) << 32) + squares_low;
    const auto spread =
        static_cast<double>(squares * n - static_cast<unsigned __int128>(sum) * sum);
    return {static_cast<double>(sum) / n,
            ninetieth(values, n, static_cast<uint32_t>(guess.p90 * guess_margin)),
            std::sqrt(spread) / n, decayed_sum / n,
            ninetieth(decayed, n, guess.decayed_p90 * guess_margin)};
}

void CachedReservoir::read(int64_t now_ns, double *out) {
    if (!fresh_) {
        Reduced guess = reduced_;
        guess.decayed_p90 *= decay(newest_ms_ - reduced_at_ms_);
        reduced_ = reduce(samples, newest_ms_, guess);
        reduced_at_ms_ = newest_ms_;
        fresh_ = true;
    }
    const double aged = decay(now_ns / 1'000'000 - newest_ms_);
    out[0] = reduced_.mean;
    out[1] = reduced_.p90;
    out[2] = reduced_.std;
    out[3] = reduced_.decayed_mean * aged;
    out[4] = reduced_.decayed_p90 * aged;
}

} // namespace dcgym::twin
