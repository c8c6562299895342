// SPDX-License-Identifier: Apache-2.0
// The future: a heap of events in which each owner has at most one, which may be moved or
// cancelled.
#pragma once

#include <cstdint>
#include <vector>

#include "interrupt.hpp"

namespace dcgym::twin {

// Order is (time, sequence): of events at one time the one scheduled first comes first.
class EventQueue {
  public:
    using Owner = uint32_t;
    static constexpr Owner max_owners = 1 << 24;

    struct Event {
        int64_t time_ns;
        uint64_t order; // sequence above, owner below

        Owner owner() const { return static_cast<Owner>(order & owner_mask); }
        bool before(const Event &other) const {
            return time_ns < other.time_ns || (time_ns == other.time_ns && order < other.order);
        }
    };

    // Makes room for owners 0 .. n - 1.
    void reserve(Owner n) {
        if (n > place_.size())
            place_.resize(n, nowhere);
    }

    void clear() {
        heap_.clear();
        place_.assign(place_.size(), nowhere);
        sequence_ = 0;
    }

    bool empty() const { return heap_.empty(); }
    const Event &first() const { return heap_.front(); }
    bool scheduled(Owner owner) const { return place_[owner] != nowhere; }
    int64_t time_of(Owner owner) const { return heap_[place_[owner]].time_ns; }

    // Sets the time of the owner's event, which becomes the latest scheduled of that time.
    void schedule(Owner owner, int64_t time_ns) {
        const Event event{time_ns, (sequence_++ << owner_bits) | owner};
        uint32_t at = place_[owner];
        if (at == nowhere) {
            at = static_cast<uint32_t>(heap_.size());
            heap_.push_back(event);
            rise(at, event);
        } else if (event.before(heap_[at])) {
            rise(at, event);
        } else {
            sink(at, event);
        }
    }

    void cancel(Owner owner) {
        const uint32_t at = place_[owner];
        if (at == nowhere)
            return;
        place_[owner] = nowhere;
        const Event last = heap_.back();
        heap_.pop_back();
        if (at == heap_.size())
            return;
        if (at > 0 && last.before(heap_[parent(at)]))
            rise(at, last);
        else
            sink(at, last);
    }

    // Hands the events until that time, itself included, to handle(event), in their order; those
    // that are scheduled meanwhile too. Throws Interrupted, between two, where the call is to end.
    template <typename Handle>
    void run_until(int64_t until_ns, Interrupt::Events &events, Handle &&handle) {
        while (!empty() && first().time_ns <= until_ns) {
            const Event event = first();
            handle(event);
            finish(event);
            events.next();
        }
    }

  private:
    // Removes the first event unless its owner has scheduled itself anew meanwhile.
    void finish(const Event &event) {
        const uint32_t at = place_[event.owner()];
        if (at != nowhere && heap_[at].order == event.order)
            cancel(event.owner());
    }

    static constexpr int owner_bits = 24;
    static_assert(max_owners == 1 << owner_bits);
    static constexpr uint64_t owner_mask = max_owners - 1;
    static constexpr uint32_t nowhere = 0xffffffff;
    static constexpr uint32_t children = 4;

    static uint32_t parent(uint32_t at) { return (at - 1) / children; }

    void put(uint32_t at, const Event &event) {
        heap_[at] = event;
        place_[event.owner()] = at;
    }

    void rise(uint32_t at, const Event event) {
        while (at > 0 && event.before(heap_[parent(at)])) {
            put(at, heap_[parent(at)]);
            at = parent(at);
        }
        put(at, event);
    }

    void sink(uint32_t at, const Event event) {
        const auto size = static_cast<uint32_t>(heap_.size());
        for (uint32_t child = at * children + 1; child < size; child = at * children + 1) {
            const uint32_t end = child + children < size ? child + children : size;
            uint32_t least = child;
            for (uint32_t other = child + 1; other < end; other++)
                if (heap_[other].before(heap_[least]))
                    least = other;
            if (!heap_[least].before(event))
                break;
            put(at, heap_[least]);
            at = least;
        }
        put(at, event);
    }

    std::vector<Event> heap_;
    std::vector<uint32_t> place_;
    uint64_t sequence_ = 0;
};

} // namespace dcgym::twin
