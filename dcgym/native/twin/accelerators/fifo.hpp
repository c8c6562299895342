// SPDX-License-Identifier: Apache-2.0
// A queue in one ring: as small as a vector while empty, where a deque holds two blocks of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dcgym::twin::accelerators {

template <typename T> class Fifo {
  public:
    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    const T &front() const { return slots_[head_]; }
    T &back() { return slots_[(head_ + size_ - 1) & mask_]; }
    // In order; `i` counts from the front.
    const T &operator[](size_t i) const { return slots_[(head_ + i) & mask_]; }

    void push_back(const T &value) {
        if (size_ == slots_.size())
            grow();
        slots_[(head_ + size_) & mask_] = value;
        size_++;
    }
    void pop_front(size_t n = 1) {
        head_ = static_cast<uint32_t>((head_ + n) & mask_);
        size_ -= static_cast<uint32_t>(n);
    }
    void clear() { head_ = size_ = 0; }

  private:
    static constexpr size_t least = 8;

    void grow() {
        std::vector<T> larger(slots_.empty() ? least : 2 * slots_.size());
        for (size_t i = 0; i < size_; i++)
            larger[i] = (*this)[i];
        slots_ = std::move(larger);
        head_ = 0;
        mask_ = static_cast<uint32_t>(slots_.size() - 1);
    }

    uint32_t size_ = 0;
    uint32_t head_ = 0;
    uint32_t mask_ = 0; // slots, a power of two, less one
    std::vector<T> slots_;
};

} // namespace dcgym::twin::accelerators
