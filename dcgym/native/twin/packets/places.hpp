// SPDX-License-Identifier: Apache-2.0
// Values by number that stay where they are while others are added.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace dcgym::twin::packets {

// As std::deque, whose search for an entry takes a part of the time of a packet's hop.
template <typename Value> class Places {
  public:
    Places() = default;
    Places(const Places &other) {
        for (const auto &one : other.values_)
            values_.push_back(std::make_unique<Value>(*one));
    }
    Places(Places &&other) noexcept = default;
    Places &operator=(Places other) noexcept {
        values_.swap(other.values_);
        return *this;
    }

    uint32_t size() const { return static_cast<uint32_t>(values_.size()); }
    Value &operator[](uint32_t number) { return *values_[number]; }
    const Value &operator[](uint32_t number) const { return *values_[number]; }
    // Adds one, and returns its number.
    uint32_t add() {
        values_.push_back(std::make_unique<Value>());
        return size() - 1;
    }
    void clear() { values_.clear(); }

  private:
    std::vector<std::unique_ptr<Value>> values_;
};

} // namespace dcgym::twin::packets
