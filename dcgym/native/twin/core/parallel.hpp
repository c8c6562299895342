// SPDX-License-Identifier: Apache-2.0
// Many environments on a few threads.
#pragma once

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace dcgym::twin {

// Calls work(index) for each index below n, and returns when all are done; rethrows what the first
// thread that failed threw. Which thread serves an index depends on the two numbers alone.
template <typename Work> void parallel_for(size_t n, size_t threads, const Work &work) {
    std::vector<std::exception_ptr> failures(threads);
    const auto share = [&](size_t thread) {
        try {
            for (size_t index = thread; index < n; index += threads)
                work(index);
        } catch (...) {
            failures[thread] = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> others;
        for (size_t thread = 1; thread < threads; thread++)
            others.emplace_back(share, thread);
        share(0);
    }
    for (const std::exception_ptr &failure : failures)
        if (failure)
            std::rethrow_exception(failure);
}

} // namespace dcgym::twin
