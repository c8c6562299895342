// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace dcgym {

/// Everything that waits for a moment, in one heap behind one kernel timer.
class Timetable {
  public:
    /// What may wait; leaves the timetable when it is destroyed.
    class Entry {
      public:
        explicit Entry(Timetable &timetable) : timetable_{timetable} {}
        virtual ~Entry() { timetable_.cancel(*this); }
        Entry(const Entry &) = delete;
        Entry &operator=(const Entry &) = delete;

      protected:
        /// Called once the moment has come; the entry waits no more.
        virtual void due() = 0;

      private:
        friend class Timetable;
        static constexpr std::size_t kAbsent = std::numeric_limits<std::size_t>::max();

        Timetable &timetable_;
        std::int64_t time_ns_ = 0;
        std::size_t place_ = kAbsent;
    };

    explicit Timetable(asio::io_context &io) : timer_{io} {}

    /// Makes the entry wait for this moment of CLOCK_MONOTONIC, instead of any before.
    void set(Entry &entry, std::int64_t time_ns);
    void cancel(Entry &entry);

    /// Serves what is due. Long event handlers call it, so that no moment waits behind them.
    void serve();

  private:
    void arm();
    void put(std::size_t place, Entry &entry);
    void rise(std::size_t place, Entry &entry);
    void sink(std::size_t place, Entry &entry);

    asio::steady_timer timer_;
    std::vector<Entry *> heap_;
    std::int64_t armed_ns_ = 0; /* 0: the kernel timer is not set */
    bool serving_ = false;
};

} // namespace dcgym
