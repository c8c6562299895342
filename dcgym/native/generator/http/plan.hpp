// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "http.h"
#include "address.hpp"
#include "service_station.hpp"

namespace dcgym {

/// What a plan of requests says beside its memory file.
struct RequestTables {
    std::size_t n_requests = 0;
    std::size_t n_stages = 0;
    std::int64_t timeout_ns = 0; /* 0: none */
    std::vector<SocketAddress> targets;
    std::vector<bool> by_datagram; /* of each target: UDP, not TCP */
    std::vector<std::string> resources;
    std::vector<std::string> paths; /* one an application */
};

/// The requests that the owner handed over, checked, and the memory where their results go.
class RequestPlan {
  public:
    RequestPlan() = default;

    /// Maps the memory file (http.h). Throws std::invalid_argument naming the first wrong request.
    RequestPlan(int fd, RequestTables tables, std::size_t n_hosts);
    RequestPlan(RequestPlan &&other) noexcept { *this = std::move(other); }
    RequestPlan &operator=(RequestPlan &&other) noexcept;
    ~RequestPlan();

    std::size_t size() const { return requests_.size(); }
    const dcgym_http_request &request(std::size_t id) const { return requests_[id]; }
    const SocketAddress &target(std::size_t id) const {
        return tables_.targets[requests_[id].target];
    }
    /// Whether the request is a datagram, as its response is.
    bool is_datagram(std::size_t id) const { return tables_.by_datagram[requests_[id].target]; }
    std::int64_t timeout_ns() const { return tables_.timeout_ns; }
    /// The bytes of a request.
    std::string message(std::size_t id) const;
    /// The requests by rising start; equal starts in the order of the plan.
    const std::vector<std::uint32_t> &by_start() const { return by_start_; }

    dcgym_http_header &header() const { return *header_; }
    /// Forgets the results of an earlier run.
    void clear_results() const;
    void write(std::size_t id, const dcgym_http_result &result) const;

  private:
    void map(int fd);
    void check_request(std::size_t id, std::size_t n_hosts) const;

    RequestTables tables_;
    std::vector<dcgym_http_request> requests_;
    std::vector<dcgym_http_stage> stages_;
    std::vector<std::uint32_t> by_start_;
    void *memory_ = nullptr;
    std::size_t size_bytes_ = 0;
    dcgym_http_header *header_ = nullptr;
    dcgym_http_result *results_ = nullptr;
    std::uint64_t *order_ = nullptr;
};

} // namespace dcgym
