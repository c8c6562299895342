// SPDX-License-Identifier: Apache-2.0
// The counters that readers map (link_delay.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "link_delay.h"

namespace dcgym::relay {

/// Bucket of a lateness, as link_delay.h has it.
inline std::size_t late_bucket(std::uint64_t late_ns) {
    constexpr unsigned first = DCGYM_DELAY_FIRST_OCTAVE, bits = DCGYM_DELAY_PARTS_BITS;
    if (late_ns < (std::uint64_t{1} << first))
        return 0;
    const auto octave = static_cast<unsigned>(std::bit_width(late_ns)) - 1;
    const std::size_t part = (late_ns >> (octave - bits)) & ((1u << bits) - 1);
    const std::size_t bucket = 1 + ((octave - first) << bits) + part;
    return bucket < DCGYM_DELAY_BUCKETS ? bucket : DCGYM_DELAY_BUCKETS - 1;
}

/// Owns the mapping. The relay is its only writer.
class Memory {
  public:
    explicit Memory(int fd);
    ~Memory();
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    dcgym_delay_header &header() { return *static_cast<dcgym_delay_header *>(start_); }
    /// Number `index` must be below `capacity`.
    dcgym_delay_link &link(std::size_t index) {
        return reinterpret_cast<dcgym_delay_link *>(&header() + 1)[index];
    }
    std::size_t capacity() const {
        return (bytes_ - sizeof(dcgym_delay_header)) / sizeof(dcgym_delay_link);
    }
    void note_late(std::uint64_t late_ns);
    /// Counts from zero.
    void begin();

  private:
    void *start_ = nullptr;
    std::size_t bytes_ = 0;
};

} // namespace dcgym::relay
