// SPDX-License-Identifier: Apache-2.0
// Long calls that their caller may end: what Ctrl-C is to a loop that no interpreter sees.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <stdexcept>

namespace dcgym {

// Leaves a loop between two events; thrown on every thread that serves the call. Modules throw it
// through each other, hence the visibility.
struct __attribute__((visibility("default"))) Interrupted {};

// What a call cannot do: a BackendError in Python, unlike what a handler of signals raises.
struct __attribute__((visibility("default"))) Refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// One call. Its own thread asks the caller every few milliseconds; other threads that serve it
// learn what it has answered.
class Interrupt {
  public:
    // Whether the call is to end. It may run whatever the caller does about a signal.
    using Ask = bool (*)();

    // Between two questions. Each may wait for a lock of the interpreter that another thread holds
    // for 5 ms (sys.getswitchinterval).
    static constexpr int64_t period_ns = 10'000'000;

    explicit Interrupt(Ask ask) : ask_(ask), asked_ns_(now_ns()) {}
    Interrupt(const Interrupt &) = delete;
    Interrupt &operator=(const Interrupt &) = delete;

    // Asks if it is time to, on the call's own thread.
    bool is_due() {
        if (!ended_.load(std::memory_order_relaxed) && pthread_equal(own_, pthread_self()) != 0 &&
            now_ns() - asked_ns_ >= period_ns) {
            ended_.store(ask_(), std::memory_order_relaxed);
            asked_ns_ = now_ns();
        }
        return ended_.load(std::memory_order_relaxed);
    }

    // Likewise; leaves the loop if it is to end.
    void look() {
        if (is_due())
            throw Interrupted{};
    }

    // Looks once in so many events of a loop, the shortest of which take 50 ns.
    class Events {
      public:
        explicit Events(Interrupt &call) : call_(call) {}
        void next() {
            if (--left_ > 0)
                return;
            left_ = most;
            call_.look();
        }

      private:
        static constexpr uint32_t most = 256;
        Interrupt &call_;
        uint32_t left_ = most;
    };

  private:
    // In 4 ms or so, for a few nanoseconds.
    static int64_t now_ns() {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    }

    Ask ask_;
    pthread_t own_ = pthread_self();
    int64_t asked_ns_;
    std::atomic<bool> ended_{false};
};

} // namespace dcgym
