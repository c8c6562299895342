// SPDX-License-Identifier: Apache-2.0
// Many environments on a few threads.
#pragma once

#include <cstddef>
#include <functional>

namespace dcgym::twin {

// Calls work(index) for each index below n, and returns when all are done; rethrows what the first
// thread that failed threw. Which thread serves an index depends on the two numbers alone.
void parallel_for(size_t n, size_t threads, const std::function<void(size_t)> &work);

} // namespace dcgym::twin
