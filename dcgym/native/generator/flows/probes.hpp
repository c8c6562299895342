// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "flow.hpp"

namespace dcgym {

/// Measures the round trip between two hosts with an ICMP echo request every period.
///
/// The kernel of the other host answers and the kernel of this one notes the arrival, so that the
/// time holds no wait for this process. Its requests queue like any other packet.
class Probe final : private Timetable::Entry {
  public:
    /// Opens the socket and begins at once.
    Probe(World &world, std::size_t index, std::size_t src, std::size_t dst,
          std::int64_t period_ns);

    /// Forgets what was measured and what is under way: the network is another from here on.
    void restart();
    /// Brings the age of the oldest unanswered request up to date.
    void sample();

  private:
    static constexpr std::size_t kRemembered = 256;

    void due() override;
    void send_request();
    void wait();
    void read_answers();
    void answered(std::uint64_t number, std::int64_t arrival_ns);

    World &world_;
    const std::size_t index_;
    const std::int64_t period_ns_;
    asio::posix::stream_descriptor socket_;
    std::int64_t next_ns_;
    std::uint64_t sent_ = 0;
    std::uint64_t base_ = 0;       /* earlier requests are forgotten */
    std::uint64_t first_open_ = 0; /* earlier requests are answered, lost or forgotten */
    /* CLOCK_REALTIME, as the kernel's stamps. */
    std::array<std::int64_t, kRemembered> sent_ns_{};
};

} // namespace dcgym
