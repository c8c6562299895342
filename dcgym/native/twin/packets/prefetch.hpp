// SPDX-License-Identifier: Apache-2.0
// Memory that is needed soon, fetched while something else is worked on.
#pragma once

#include <algorithm>
#include <cstddef>

namespace dcgym::twin::packets {

constexpr size_t cache_line_bytes = 64;
// More of a thing would displace what is in use.
constexpr size_t most_fetched_bytes = 8192;

inline void fetch(const void *first, size_t bytes) {
    const auto *at = static_cast<const char *>(first);
    for (size_t i = 0; i < std::min(bytes, most_fetched_bytes); i += cache_line_bytes)
        __builtin_prefetch(at + i, 1);
}

} // namespace dcgym::twin::packets
