// SPDX-License-Identifier: Apache-2.0
#include "request_source.hpp"

namespace dcgym::twin {

RequestSource::RequestSource(const RequestWorkload &workload, uint64_t seed, double rate_per_s)
    : workload_(&workload), seed_(seed), rate_per_s_(rate_per_s),
      arrivals_(stream_seed(seed, arrival_stream, 0)) {
    plan(0);
}

void RequestSource::plan(int64_t now_ns) {
    next_ns_ = never;
    const bool is_over = workload_->requests > 0 && number_ >= workload_->requests;
    if (rate_per_s_ > 0 && !is_over) {
        const double gap_ns = workload_->gaps.draw(arrivals_.uniform()) * ns_per_s / rate_per_s_;
        next_ns_ = now_ns + static_cast<int64_t>(std::min(gap_ns + 0.5, 0x1p60));
    }
}

// What a request asks for comes from its own stream: nothing that is done to others matters.
Request RequestSource::come(int64_t now_ns, uint64_t &hash) {
    Splitmix own(stream_seed(seed_, request_stream, number_));
    hash = own.next();
    Request request{number_++, now_ns};
    const std::vector<RequestApplication> &applications = workload_->applications;
    double left = applications.size() > 1 ? own.uniform() : 0;
    while (request.application + 1U < applications.size() &&
           (left -= applications[request.application].share) >= 0)
        request.application++;
    request.demand = applications[request.application].demand.draw(own.uniform());
    plan(now_ns);
    return request;
}

void RequestSource::set_rate(double rate_per_s, int64_t now_ns) {
    rate_per_s_ = rate_per_s;
    plan(now_ns);
}

} // namespace dcgym::twin
