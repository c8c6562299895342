// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "clock.hpp"
#include "timetable.hpp"

namespace dcgym {

/// Things to be done at given moments.
class Agenda final : private Timetable::Entry {
  public:
    explicit Agenda(Timetable &timetable) : Entry{timetable}, timetable_{timetable} {}

    void add(std::int64_t time_ns, std::function<void()> what) {
        items_.emplace(time_ns, std::move(what));
        timetable_.set(*this, items_.begin()->first);
    }
    void clear() {
        items_.clear();
        timetable_.cancel(*this);
    }

  private:
    void due() override {
        while (!items_.empty() && items_.begin()->first <= now_ns()) {
            // Out of the list first: what is done may clear it.
            const auto what = std::move(items_.begin()->second);
            items_.erase(items_.begin());
            what();
        }
        if (!items_.empty())
            timetable_.set(*this, items_.begin()->first);
    }

    Timetable &timetable_;
    std::multimap<std::int64_t, std::function<void()>> items_;
};

} // namespace dcgym
