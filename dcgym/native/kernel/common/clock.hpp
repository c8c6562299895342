// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ctime>

namespace dcgym {

// CLOCK_MONOTONIC.
inline uint64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ULL +
           static_cast<uint64_t>(now.tv_nsec);
}

} // namespace dcgym
