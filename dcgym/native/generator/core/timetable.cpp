// SPDX-License-Identifier: Apache-2.0
#include "timetable.hpp"

#include "clock.hpp"

namespace dcgym {

void Timetable::set(Entry &entry, std::int64_t time_ns) {
    cancel(entry);
    entry.time_ns_ = time_ns;
    heap_.push_back(&entry);
    rise(heap_.size() - 1, entry);
    arm();
}

void Timetable::cancel(Entry &entry) {
    const std::size_t place = entry.place_;
    if (place == Entry::kAbsent)
        return;
    entry.place_ = Entry::kAbsent;
    Entry &last = *heap_.back();
    heap_.pop_back();
    if (&last == &entry)
        return;
    // The one from the end may belong above the gap or below it.
    if (place > 0 && last.time_ns_ < heap_[(place - 1) / 2]->time_ns_)
        rise(place, last);
    else
        sink(place, last);
}

void Timetable::serve() {
    if (serving_)
        return;
    serving_ = true;
    // What becomes due meanwhile waits for the next turn, or one that never ends would take them
    // all.
    const std::int64_t time_ns = now_ns();
    while (!heap_.empty() && heap_.front()->time_ns_ <= time_ns) {
        Entry &first = *heap_.front();
        cancel(first);
        first.due();
    }
    serving_ = false;
    arm();
}

void Timetable::arm() {
    if (serving_ || heap_.empty())
        return;
    const std::int64_t first_ns = heap_.front()->time_ns_;
    // Too early a wake-up costs less than setting the timer anew for each cancelled entry.
    if (armed_ns_ != 0 && armed_ns_ <= first_ns)
        return;
    armed_ns_ = first_ns;
    timer_.expires_at(time_point(first_ns));
    timer_.async_wait([this](const asio::error_code &error) {
        if (error)
            return;
        armed_ns_ = 0;
        serve();
    });
}

void Timetable::put(std::size_t place, Entry &entry) {
    heap_[place] = &entry;
    entry.place_ = place;
}

void Timetable::rise(std::size_t place, Entry &entry) {
    while (place > 0 && entry.time_ns_ < heap_[(place - 1) / 2]->time_ns_) {
        put(place, *heap_[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(place, entry);
}

void Timetable::sink(std::size_t place, Entry &entry) {
    for (std::size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
        if (child + 1 < heap_.size() && heap_[child + 1]->time_ns_ < heap_[child]->time_ns_)
            ++child;
        if (entry.time_ns_ <= heap_[child]->time_ns_)
            break;
        put(place, *heap_[child]);
        place = child;
    }
    put(place, entry);
}

} // namespace dcgym
