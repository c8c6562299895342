// SPDX-License-Identifier: Apache-2.0
// When requests in service end, earliest first; of equal times the one that began first.
#pragma once

#include <cstdint>
#include <vector>

#include "device.hpp"

namespace dcgym::twin::accelerators {

struct InService {
    Request request;
    uint32_t device;
    uint32_t epoch; // of the device when it began
};

class Departures {
  public:
    static constexpr uint32_t slot_bits = 24;

    bool empty() const { return heap_.empty(); }
    int64_t first_ns() const { return heap_.front().at_ns; }
    const InService &first() const { return slots_[slot(heap_.front())]; }
    bool is_full() const { return heap_.size() >= (size_t{1} << slot_bits) - 1; }

    void clear() {
        heap_.clear();
        slots_.clear();
        free_.clear();
        sequence_ = 0;
    }
    void push(int64_t at_ns, const InService &what) {
        uint32_t number = static_cast<uint32_t>(slots_.size());
        if (free_.empty()) {
            slots_.push_back(what);
        } else {
            number = free_.back();
            free_.pop_back();
            slots_[number] = what;
        }
        heap_.emplace_back();
        rise(heap_.size() - 1, {at_ns, sequence_++ << slot_bits | number});
    }
    void pop() {
        free_.push_back(slot(heap_.front()));
        const Entry last = heap_.back();
        heap_.pop_back();
        if (!heap_.empty())
            sink(last);
    }
    // The first ends, and another begins in its place.
    void replace_first(int64_t at_ns, const InService &what) {
        const uint32_t number = slot(heap_.front());
        slots_[number] = what;
        sink({at_ns, sequence_++ << slot_bits | number});
    }
    template <typename Visit> void for_each(const Visit &visit) const {
        for (const Entry &entry : heap_)
            visit(slots_[slot(entry)]);
    }

  private:
    struct Entry {
        int64_t at_ns;
        uint64_t order; // sequence and slot

        // As one number, without a branch: nobody can predict which of two is earlier.
        bool before(const Entry &other) const { return key() < other.key(); }
        unsigned __int128 key() const {
            return static_cast<unsigned __int128>(static_cast<uint64_t>(at_ns)) << 64 | order;
        }
    };
    static constexpr size_t children = 4;

    static uint32_t slot(const Entry &entry) {
        return static_cast<uint32_t>(entry.order & ((1U << slot_bits) - 1));
    }
    void rise(size_t hole, const Entry &entry) {
        while (hole > 0) {
            const size_t parent = (hole - 1) / children;
            if (!entry.before(heap_[parent]))
                break;
            heap_[hole] = heap_[parent];
            hole = parent;
        }
        heap_[hole] = entry;
    }
    void sink(const Entry &entry) {
        const size_t n = heap_.size();
        size_t hole = 0;
        for (size_t child = 1; child < n; child = hole * children + 1) {
            const size_t end = std::min(child + children, n);
            size_t best = child;
            for (size_t i = child + 1; i < end; i++)
                best = heap_[i].before(heap_[best]) ? i : best;
            if (!heap_[best].before(entry))
                break;
            heap_[hole] = heap_[best];
            hole = best;
        }
        heap_[hole] = entry;
    }

    std::vector<Entry> heap_;
    std::vector<InService> slots_;
    std::vector<uint32_t> free_;
    uint64_t sequence_ = 0;
};

} // namespace dcgym::twin::accelerators
