// SPDX-License-Identifier: Apache-2.0
// When flows arrive, if not at exponential gaps: gaps of a mean of 1 pass at a rate that the
// modulation changes. (dcgym.traffic.arrivals.process is the same for plans drawn ahead.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "distribution.hpp"
#include "random.hpp"

namespace dcgym::twin {

// How the rate changes by itself: factors of mean 1, each for a time.
struct ModulationConfig {
    std::vector<double> factors; // none: the rate stays
    std::vector<double> times_ns;
    bool markov = false; // exponential times, and any other factor next; else in turn, for ever
    double phase = 0;    // of the turn, at time 0; below 0: drawn
};

struct ArrivalsConfig {
    bool plain = true; // a Poisson process of its own for each application, and nothing below
    Distribution gaps; // of mean 1
    std::vector<double> recorded;       // gaps that follow on each other, in place of drawn ones
    std::vector<uint16_t> applications; // of the recorded arrivals; none: drawn by their shares
    double start = 0;                   // of the recording, at time 0; below 0: drawn
    ModulationConfig modulation;
    uint32_t users = 0; // above 0: so many send one flow each, think when it has ended, and again
    Distribution think;
};

class ArrivalProcess {
  public:
    static constexpr int64_t never = int64_t{1} << 60;

    ArrivalProcess() = default;
    ArrivalProcess(const ArrivalsConfig &config, uint64_t seed, double rate_per_ns);

    int64_t next_ns() const; // of the next arrival, if the rate stays
    int64_t change_ns() const { return change_ns_; }
    // Changes the rate by itself.
    void change();
    void set_rate(int64_t now_ns, double rate_per_ns);
    // Goes on to the next gap; returns the number of the recorded arrival that has come.
    size_t arrived(int64_t now_ns);
    // A uniform number that belongs to the arrival that has just come.
    double choose() { return choosing_.uniform(); }

  private:
    double factor() const;
    void settle(int64_t now_ns);
    void begin_recording();
    void begin_modulation();

    const ArrivalsConfig *config_ = nullptr;
    Xoshiro gaps_;
    Splitmix changing_, choosing_;
    double rate_per_ns_ = 0;
    double left_ = 0; // of the gap under way, as of since_ns_
    int64_t since_ns_ = 0;
    int64_t change_ns_ = never;
    double change_at_ = 0; // the same without rounding, so that turns keep their length
    size_t state_ = 0;     // of the modulation
    size_t place_ = 0;     // in the recording
};

} // namespace dcgym::twin
