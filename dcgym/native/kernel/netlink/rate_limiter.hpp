// SPDX-License-Identifier: Apache-2.0
// The rates that an agent sets.
#pragma once

#include <cstdint>
#include <vector>

#include "netlink.hpp"

namespace dcgym {

// Rate limits of the hosts: remembers what the kernel acknowledged and sends only what differs.
class RateLimiter {
  public:
    RateLimiter(std::vector<int> rtnl_fds, std::vector<int> ifindexes, uint32_t limit_bytes,
                std::vector<uint32_t> frames_bytes, std::vector<uint64_t> link_rates_bps);
    // Returns CLOCK_MONOTONIC once the kernel has acknowledged every change.
    uint64_t apply(const uint64_t *rates_bps);
    const std::vector<uint64_t> &rates_bps() const { return rates_bps_; }

  private:
    TokenBucket bucket(size_t host, uint64_t rate_bps) const;
    std::vector<int> rtnl_fds_, ifindexes_;
    uint32_t limit_bytes_;
    std::vector<uint32_t> frames_bytes_;
    std::vector<uint64_t> link_rates_bps_, rates_bps_;
};

} // namespace dcgym
