// SPDX-License-Identifier: Apache-2.0
// The kernel's timers and clock: how late they are, and where a tick begins, by the seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/random.hpp"

namespace dcgym::twin::packets {

// Of timers of high resolution, in ns: what the interrupt takes, what holds it up as a rule, and
// now and then another task of the processor. As measured on two idle cores, in us late at the
// median, p90 and p99: tbf at 25 Mbit/s 12 to 14, 23 to 33 and 55 to 2,070; the relay of link delay
// 7 to 13, 13 to 25 and 37 to 57 with a flow of 10 or 30 Mbit/s, and 10 to 12, 37 to 61 and 147 to
// 197 with bursts of 16 flows after 90 ms of silence. The most of 10,000 was 700 to 3,300.
constexpr double late_least_ns = 5'000, late_beyond_ns = 10'000, late_held_up_ns = 250'000;
constexpr size_t late_quantiles = 1024, late_held_up = 4;
constexpr int64_t mean_late_ns = 16'000;

constexpr int64_t tick_ns = 4'000'000;          // CONFIG_HZ=250
constexpr int64_t least_timeout_ns = 2'000'000; // TCP_TIMEOUT_MIN_US

// The time that passes until something happens that has no memory.
inline int64_t exponential_ns(Splitmix &random, double mean_ns) {
    return static_cast<int64_t>(-mean_ns * portable_log(random.uniform()));
}

// Draws how late a timer comes; a mean of 0: never.
class Lateness {
  public:
    Lateness() = default;
    explicit Lateness(int64_t mean_ns)
        : scale_q16_((static_cast<uint64_t>(mean_ns) << 16) / mean_late_ns) {}

    bool is_on() const { return scale_q16_ != 0; }
    int64_t draw(Splitmix &random) const {
        if (!is_on())
            return 0;
        return static_cast<int64_t>(quantiles[random.next() >> 54] * scale_q16_ >> 16);
    }

  private:
    static const std::array<uint32_t, late_quantiles> quantiles;

    uint64_t scale_q16_ = 0;
};

// The clock that timers of low resolution and TCP's time stamps read: the kernel's counts from when
// the machine booted, so that nobody knows where in a tick an episode begins.
class Clock {
  public:
    Clock() = default;
    explicit Clock(int64_t booted_ns) : booted_ns_(booted_ns) {}

    uint32_t ms(int64_t now_ns) const {
        return static_cast<uint32_t>((now_ns + booted_ns_) / 1'000'000) + 1;
    }
    uint32_t jiffies(int64_t now_ns) const {
        return static_cast<uint32_t>((now_ns + booted_ns_) / tick_ns) + 1;
    }
    // When a timer of so many ns fires that is set now. As the wheel of kernel/time/timer.c: never
    // early, up to a tick late below a quarter of a second, up to eight below two seconds.
    int64_t fires_ns(int64_t now_ns, int64_t wait_ns) const;
    // The next whole step of this clock after a time.
    int64_t next_step_ns(int64_t after_ns, int64_t step_ns, int64_t phase_ns) const {
        const int64_t at_ns = after_ns + booted_ns_ - phase_ns;
        return (at_ns / step_ns + 1) * step_ns + phase_ns - booted_ns_;
    }

    // After so many ticks its timers' wheel is as before, for all that wait below two minutes.
    static constexpr int64_t period_ticks = 512;

  private:
    int64_t booted_ns_ = 0;
};

} // namespace dcgym::twin::packets
