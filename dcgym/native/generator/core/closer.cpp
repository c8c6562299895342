// SPDX-License-Identifier: Apache-2.0
#include "closer.hpp"

#include <system_error>
#include <utility>

namespace dcgym {
namespace {

/* Some milliseconds of work each, against some 50 us that a thread costs. */
constexpr std::size_t kBatch = 1024;

} // namespace

void SocketCloser::add(Fd socket) {
    batch_.push_back(std::move(socket));
    if (batch_.size() == kBatch)
        close_batch();
}

void SocketCloser::close_batch() {
    auto batch = std::exchange(batch_, {});
    try {
        closing_.push_back(std::async(std::launch::async,
                                      [sockets = std::move(batch)]() mutable { sockets.clear(); }));
    } catch (const std::system_error &) {
        // No thread to be had: the sockets were closed with what should have become its argument.
    }
}

void SocketCloser::finish() {
    batch_.clear();
    // The destructor of such a future waits for its thread.
    closing_.clear();
}

} // namespace dcgym
