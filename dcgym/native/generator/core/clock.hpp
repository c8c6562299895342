// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace dcgym {

/// Now, in nanoseconds of CLOCK_MONOTONIC: the clock of Python's time.monotonic_ns().
inline std::int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// std::chrono::steady_clock is CLOCK_MONOTONIC on Linux, so the two may be converted freely.
inline std::chrono::steady_clock::time_point time_point(std::int64_t time_ns) {
    return std::chrono::steady_clock::time_point{std::chrono::nanoseconds{time_ns}};
}

} // namespace dcgym
