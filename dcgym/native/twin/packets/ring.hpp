// SPDX-License-Identifier: Apache-2.0
// A queue in a power of two of slots, which grows where it has to and never shrinks.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "prefetch.hpp"

namespace dcgym::twin::packets {

template <typename Value> class Ring {
  public:
    void reserve(uint32_t slots) {
        if (slots > slots_.size())
            move_to(std::bit_ceil(slots));
    }
    void clear() { head_ = tail_ = 0; }

    bool empty() const { return head_ == tail_; }
    uint32_t size() const { return tail_ - head_; }
    // Numbers of the first entry and of the one after the last; they only rise.
    uint32_t head() const { return head_; }
    uint32_t tail() const { return tail_; }

    Value &operator[](uint32_t number) { return slots_[number & mask_]; }
    const Value &operator[](uint32_t number) const { return slots_[number & mask_]; }
    Value &front() { return slots_[head_ & mask_]; }

    // The slot of a new last entry, which holds anything.
    Value &push() {
        if (size() == slots_.size())
            move_to(slots_.empty() ? 16 : 2 * static_cast<uint32_t>(slots_.size()));
        return slots_[tail_++ & mask_];
    }
    void push(const Value &value) { push() = value; }
    void pop() { head_++; }
    // The slots that are read and written next.
    void fetch_next() const {
        const uint32_t first = head_ & mask_, whole = static_cast<uint32_t>(slots_.size());
        fetch(slots_.data() + (whole <= few ? 0 : first), std::min(whole, few) * sizeof(Value));
    }
    void cut(uint32_t tail) { tail_ = tail; }

  private:
    static constexpr uint32_t few = 32;

    void move_to(uint32_t slots) {
        std::vector<Value> moved(slots);
        for (uint32_t number = head_; number != tail_; number++)
            moved[number & (slots - 1)] = slots_[number & mask_];
        slots_.swap(moved);
        mask_ = slots - 1;
    }

    std::vector<Value> slots_;
    uint32_t mask_ = 0, head_ = 0, tail_ = 0;
};

} // namespace dcgym::twin::packets
