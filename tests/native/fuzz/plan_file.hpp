// SPDX-License-Identifier: Apache-2.0
// A plan's memory file made of a fuzzer's input.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "generator.h"
#include "core/hosts.hpp"

namespace dcgym_fuzz {

inline void require(bool holds) {
    if (!holds)
        std::abort();
}

/// A memory file with these bytes, each flow combined with a good one: zeros stand for it.
inline dcgym::Fd make_plan_file(const std::uint8_t *data, std::size_t size) {
    const dcgym_generator_flow good{.src = 0,
                                    .dst = 1,
                                    .transport = DCGYM_GENERATOR_TCP,
                                    .port = 5001,
                                    .start_ns = 0,
                                    .size_bytes = 1000,
                                    .duration_ns = DCGYM_GENERATOR_UNLIMITED,
                                    .rate_bps = 1'000'000,
                                    .repetitions = 1,
                                    .gap_ns = 0,
                                    .after = -1,
                                    .group = 0};
    std::uint8_t pattern[sizeof(good)];
    std::memcpy(pattern, &good, sizeof(good));
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = data[i] ^ pattern[i % sizeof(pattern)];
    dcgym::Fd file{memfd_create("plan", MFD_CLOEXEC)};
    require(file.get() >= 0 && write(file.get(), bytes.data(), size) == static_cast<ssize_t>(size));
    return file;
}

} // namespace dcgym_fuzz
