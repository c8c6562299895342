// SPDX-License-Identifier: Apache-2.0
// Which requests for a pool of devices arrive, when, and what they ask for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "distribution.hpp"
#include "random.hpp"

namespace dcgym::twin {

struct RequestApplication {
    double share;        // of the requests
    Distribution demand; // of mean 1
};

struct RequestWorkload {
    std::vector<RequestApplication> applications;
    Distribution gaps; // between requests, of mean 1
    uint64_t requests; // of an episode; 0: they come without end
};

struct Request {
    uint64_t number = 0;
    int64_t arrival_ns = 0; // at the device
    double demand = 0;      // of mean 1
    uint16_t application = 0;
    uint16_t connection = 0; // hash of it in a table of cells
};

// Time of service in whole nanoseconds.
inline int64_t whole_service_ns(double ns) {
    return ns < 1 ? 1 : static_cast<int64_t>(std::min(ns + 0.5, 0x1p53));
}

class RequestSource {
  public:
    // The streams of random numbers of one environment.
    enum Stream : uint64_t { arrival_stream, request_stream, balancer_stream, loss_stream };
    static constexpr int64_t never = std::numeric_limits<int64_t>::max();

    RequestSource() = default;
    RequestSource(const RequestWorkload &workload, uint64_t seed, double rate_per_s);

    int64_t next_ns() const { return next_ns_; } // `never` where none comes any more
    // The request that comes now, and the hash of its five-tuple.
    Request come(int64_t now_ns, uint64_t &hash);
    // Gaps have no memory in the default; others begin anew.
    void set_rate(double rate_per_s, int64_t now_ns);

  private:
    void plan(int64_t now_ns);

    const RequestWorkload *workload_ = nullptr;
    uint64_t seed_ = 0, number_ = 0;
    double rate_per_s_ = 0;
    Splitmix arrivals_;
    int64_t next_ns_ = never;
};

} // namespace dcgym::twin
