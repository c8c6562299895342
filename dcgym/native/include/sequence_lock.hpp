// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace dcgym {

/// One write under a sequence lock, by its only writer: odd while this object lives.
///
/// Readers copy, and try again if the sequence was odd or changed (traffic/sequence_lock.py,
/// read_consistent in src/collector.hpp).
class SequenceWrite {
  public:
    explicit SequenceWrite(std::uint64_t &sequence)
        : sequence_{sequence}, before_{sequence_.load(std::memory_order_relaxed)} {
        sequence_.store(before_ + 1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
    }
    ~SequenceWrite() { sequence_.store(before_ + 2, std::memory_order_release); }
    SequenceWrite(const SequenceWrite &) = delete;
    SequenceWrite &operator=(const SequenceWrite &) = delete;

  private:
    std::atomic_ref<std::uint64_t> sequence_;
    const std::uint64_t before_;
};

} // namespace dcgym
