// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>
#include <vector>

#include "hosts.hpp"

namespace dcgym {

/// Closes thousands of sockets beside the thread that cuts their flows.
///
/// The kernel needs 5 us to take a TCP socket apart, which is half of what the end of a flow costs.
class SocketCloser {
  public:
    void add(Fd socket);
    /// Returns when every socket that was added is closed.
    void finish();

  private:
    void close_batch();

    std::vector<Fd> batch_;
    std::vector<std::future<void>> closing_;
};

} // namespace dcgym
