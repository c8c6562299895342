// SPDX-License-Identifier: Apache-2.0
// Threads that serve many environments, call after call.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "interrupt.hpp"
#include "owned.hpp"

namespace dcgym::twin {

// Threads beside the caller's. They wait between calls: to start one takes as long as to simulate
// several environments.
class WorkerPool {
  public:
    using Serve = void (*)(const void *work, size_t begin, size_t end);

    explicit WorkerPool(size_t others) : parts_(others + 1) {
        for (size_t i = 1; i <= others; i++)
            threads_.emplace_back([this, i] { wait_and_serve(i); });
    }
    WorkerPool(const WorkerPool &) = delete;
    WorkerPool &operator=(const WorkerPool &) = delete;
    ~WorkerPool() {
        {
            const std::lock_guard lock(mutex_);
            ends_ = true;
        }
        begins_.notify_all();
        for (std::thread &thread : threads_)
            thread.join();
    }

    void run(size_t n, const void *work, Serve serve, Interrupt &call) {
        {
            const std::lock_guard lock(mutex_);
            work_ = work;
            serve_ = serve;
            share_ = std::max<size_t>(n / (8 * parts_.size()), 1);
            for (size_t i = 0; i < parts_.size(); i++) {
                parts_[i].next.store(n * i / parts_.size(), std::memory_order_relaxed);
                parts_[i].end = n * (i + 1) / parts_.size();
            }
            round_++;
            is_open_ = true;
        }
        begins_.notify_all();
        serve_parts(0);
        std::unique_lock lock(mutex_);
        // Who has not begun by now finds nothing to do, and is not waited for.
        is_open_ = false;
        while (!ended_.wait_for(lock, std::chrono::nanoseconds(Interrupt::period_ns),
                                [this] { return active_ == 0; })) {
            lock.unlock();
            call.is_due();
            lock.lock();
        }
        if (failure_)
            std::rethrow_exception(std::exchange(failure_, nullptr));
    }

  private:
    // A thread's own part, the same in each call, so that it stays in the cache of its processor.
    struct alignas(64) Part {
        std::atomic<size_t> next{0};
        size_t end = 0;
    };

    void wait_and_serve(size_t own) {
        uint64_t served = 0;
        std::unique_lock lock(mutex_);
        for (;;) {
            begins_.wait(lock, [&] { return ends_ || (is_open_ && round_ != served); });
            if (ends_)
                return;
            served = round_;
            active_++;
            lock.unlock();
            serve_parts(own);
            lock.lock();
            if (--active_ == 0)
                ended_.notify_one();
        }
    }

    // Its own part first, then what others have not begun.
    void serve_parts(size_t own) {
        try {
            for (size_t i = 0; i < parts_.size(); i++)
                serve_part(parts_[(own + i) % parts_.size()]);
        } catch (...) {
            const std::lock_guard lock(mutex_);
            failure_ = std::current_exception();
        }
    }

    void serve_part(Part &part) {
        for (;;) {
            const size_t begin = part.next.fetch_add(share_, std::memory_order_relaxed);
            if (begin >= part.end)
                return;
            serve_(work_, begin, std::min(begin + share_, part.end));
        }
    }

    std::mutex mutex_;
    std::condition_variable begins_, ended_;
    bool ends_ = false, is_open_ = false;
    uint64_t round_ = 0;
    size_t active_ = 0; // of the other threads
    const void *work_ = nullptr;
    Serve serve_ = nullptr;
    size_t share_ = 1;
    std::vector<Part> parts_;
    std::exception_ptr failure_;
    std::vector<std::thread> threads_; // they use all of the above
};

// The caller's thread and others, which begin with the first call that needs them. A copy has
// threads of its own, and so has the child of a fork.
class Workers {
  public:
    explicit Workers(size_t threads) : threads_(threads) {}
    Workers(const Workers &other) : threads_(other.threads_) {}
    Workers(Workers &&other) noexcept = default;
    Workers &operator=(Workers other) noexcept {
        std::swap(threads_, other.threads_);
        std::swap(pool_, other.pool_);
        return *this;
    }

    // Calls work(index, call) for each index below n, and returns when all are done; rethrows what
    // one of them threw, Interrupted where ask has ended the call. Which thread serves an index is
    // chance. Throws where a call is under way: that of another thread, or the one that has asked.
    template <typename Work> void for_each(size_t n, Interrupt::Ask ask, const Work &work) {
        for_ranges(n, ask, [&work](size_t begin, size_t end, Interrupt &call) {
            for (size_t index = begin; index < end; index++) {
                call.look();
                work(index, call);
            }
        });
    }

    // Likewise calls work(begin, end, call) for ranges of indexes, each of which one thread serves.
    template <typename Work> void for_ranges(size_t n, Interrupt::Ask ask, const Work &work) {
        const OneCall only(is_busy_);
        Interrupt call(ask);
        const auto bound = [&work, &call](size_t begin, size_t end) { work(begin, end, call); };
        const auto serve = [](const void *self, size_t begin, size_t end) {
            (*static_cast<const decltype(bound) *>(self))(begin, end);
        };
        if (threads_ < 2 || n < 2)
            return serve(&bound, 0, n);
        if (!pool_ || !pool_.get_deleter().is_owner())
            pool_ = Owned<WorkerPool>(new WorkerPool(std::min(threads_, n) - 1));
        pool_->run(n, &bound, serve, call);
        call.look();
    }

  private:
    class OneCall {
      public:
        explicit OneCall(bool &is_busy) : is_busy_(is_busy) {
            if (is_busy_.exchange(true))
                throw Refusal("another call is under way");
        }
        ~OneCall() { is_busy_ = false; }

      private:
        std::atomic_ref<bool> is_busy_;
    };

    size_t threads_;
    bool is_busy_ = false;
    Owned<WorkerPool> pool_;
};

} // namespace dcgym::twin
