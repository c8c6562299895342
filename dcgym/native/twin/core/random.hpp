// SPDX-License-Identifier: Apache-2.0
// Random numbers of the twin. Nothing here comes from std:: or libm: the same seed gives the same
// bits on every machine whose doubles follow IEEE 754 (the build forbids fused operations).
#pragma once

#include <bit>
#include <cstdint>

#include "splitmix.h"

namespace dcgym::twin {

// SplitMix64 as a stream: cheap enough to give every flow one of its own.
class Splitmix {
  public:
    Splitmix() = default;
    explicit Splitmix(uint64_t state) : state_(state) {}

    uint64_t next() { return dcgym_random(&state_); }
    // Uniform in (0, 1): never 0, so that a logarithm of it is finite.
    double uniform() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }
    // Uniform in low .. high; no value differs from its share by over (high - low) / 2^64.
    int64_t between(int64_t low, int64_t high) {
        const auto width = static_cast<uint64_t>(high - low) + 1;
        return low + static_cast<int64_t>((static_cast<unsigned __int128>(next()) * width) >> 64);
    }

  private:
    __u64 state_ = 0;
};

// xoshiro256++ 1.0 (Blackman, Vigna 2019), seeded by SplitMix64 as its authors advise.
class Xoshiro {
  public:
    explicit Xoshiro(uint64_t seed = 0) {
        Splitmix source(seed);
        for (uint64_t &word : state_)
            word = source.next();
    }

    uint64_t next() {
        const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
        const uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }
    double uniform() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }

  private:
    uint64_t state_[4]{};
};

// Seed of one of the streams of an environment.
inline uint64_t stream_seed(uint64_t seed, uint64_t purpose, uint64_t number) {
    return dcgym_mix(dcgym_mix(seed + 0x9e3779b97f4a7c15ULL) ^ dcgym_mix((purpose << 56) + number));
}

// Natural logarithm and exponential, to about one unit in the last place.
double portable_log(double x);
double portable_exp(double x);
// Quantile of the standard normal distribution (Wichura 1988, algorithm AS 241).
double normal_quantile(double p);
// Its distribution function (Hart 1968, as given by West 2005), to 1e-15.
double normal_cdf(double z);

} // namespace dcgym::twin
