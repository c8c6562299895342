// SPDX-License-Identifier: Apache-2.0
#include "rate_limiter.hpp"

#include <stdexcept>
#include <utility>

#include "common/clock.hpp"

namespace dcgym {

RateLimiter::RateLimiter(std::vector<int> rtnl_fds, std::vector<int> ifindexes,
                         uint32_t limit_bytes, std::vector<uint32_t> frames_bytes,
                         std::vector<uint64_t> link_rates_bps)
    : rtnl_fds_(std::move(rtnl_fds)), ifindexes_(std::move(ifindexes)), limit_bytes_(limit_bytes),
      frames_bytes_(std::move(frames_bytes)), link_rates_bps_(std::move(link_rates_bps)),
      rates_bps_(rtnl_fds_.size()) {
    const size_t size = rtnl_fds_.size();
    if (size != ifindexes_.size() || size != frames_bytes_.size() || size != link_rates_bps_.size())
        throw std::invalid_argument("one socket, frame size and link rate per interface");
}

TokenBucket RateLimiter::bucket(size_t host, uint64_t rate_bps) const {
    return make_bucket(rtnl_fds_[host], ifindexes_[host], rate_bps, limit_bytes_,
                       frames_bytes_[host], link_rates_bps_[host]);
}

uint64_t RateLimiter::apply(const uint64_t *rates_bps) {
    std::vector<TokenBucket> changes;
    for (size_t host = 0; host < rtnl_fds_.size(); host++)
        if (rates_bps[host] != rates_bps_[host])
            changes.push_back(bucket(host, rates_bps[host]));
    set_token_buckets(changes, BucketChange::modify);
    rates_bps_.assign(rates_bps, rates_bps + rtnl_fds_.size());
    return monotonic_ns();
}

} // namespace dcgym
