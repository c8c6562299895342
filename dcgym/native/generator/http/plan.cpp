// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/hosts.hpp"
#include "query.hpp"

namespace dcgym {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 60;
constexpr std::int64_t kMostDemandNs = 3'600'000'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr std::size_t kMostRequests = std::size_t{1} << 24;

void require(bool good, std::size_t id, const char *field) {
    if (!good)
        throw std::invalid_argument("wrong " + std::string{field} + " in request " +
                                    std::to_string(id));
}

} // namespace

RequestPlan::RequestPlan(int fd, RequestTables tables, std::size_t n_hosts)
    : tables_{std::move(tables)} {
    if (tables_.n_requests > kMostRequests ||
        tables_.n_stages > kMostRequests * ServiceStation::kMostStages)
        throw std::invalid_argument("a plan of more than 2^24 requests");
    try {
        map(fd);
        for (std::size_t id = 0; id < requests_.size(); ++id)
            check_request(id, n_hosts);
    } catch (...) {
        if (memory_)
            munmap(memory_, size_bytes_);
        throw;
    }
    by_start_.resize(requests_.size());
    for (std::size_t id = 0; id < requests_.size(); ++id)
        by_start_[id] = static_cast<std::uint32_t>(id);
    std::stable_sort(by_start_.begin(), by_start_.end(), [this](auto left, auto right) {
        return requests_[left].start_ns < requests_[right].start_ns;
    });
}

RequestPlan &RequestPlan::operator=(RequestPlan &&other) noexcept {
    std::swap(tables_, other.tables_);
    std::swap(requests_, other.requests_);
    std::swap(stages_, other.stages_);
    std::swap(by_start_, other.by_start_);
    std::swap(memory_, other.memory_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(header_, other.header_);
    std::swap(results_, other.results_);
    std::swap(order_, other.order_);
    return *this;
}

RequestPlan::~RequestPlan() {
    if (memory_)
        munmap(memory_, size_bytes_);
}

void RequestPlan::map(int fd) {
    const std::size_t n = tables_.n_requests;
    const std::size_t stages_bytes = tables_.n_stages * sizeof(dcgym_http_stage);
    const std::size_t requests_bytes = n * sizeof(dcgym_http_request);
    const std::size_t results_bytes = n * sizeof(dcgym_http_result);
    size_bytes_ = sizeof(dcgym_http_header) + stages_bytes + requests_bytes + results_bytes +
                  n * sizeof(std::uint64_t);
    struct stat status {};
    check(fstat(fd, &status), "fstat of the requests");
    if (static_cast<std::size_t>(status.st_size) < size_bytes_)
        throw std::invalid_argument("the file of the requests is shorter than it says");
    void *mapped = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        check(-1, "mmap of the requests");
    memory_ = mapped;
    auto *at = static_cast<std::byte *>(mapped);
    header_ = reinterpret_cast<dcgym_http_header *>(at);
    if (header_->magic != DCGYM_HTTP_MAGIC || header_->version != DCGYM_HTTP_VERSION)
        throw std::invalid_argument("the requests have another layout");
    at += sizeof(dcgym_http_header);
    const auto *stages = reinterpret_cast<const dcgym_http_stage *>(at);
    const auto *requests = reinterpret_cast<const dcgym_http_request *>(at + stages_bytes);
    // Copies: what was checked must not change.
    stages_.assign(stages, stages + tables_.n_stages);
    requests_.assign(requests, requests + n);
    at += stages_bytes + requests_bytes;
    results_ = reinterpret_cast<dcgym_http_result *>(at);
    order_ = reinterpret_cast<std::uint64_t *>(at + results_bytes);
}

void RequestPlan::check_request(std::size_t id, std::size_t n_hosts) const {
    const dcgym_http_request &request = requests_[id];
    require(request.client < n_hosts, id, "client");
    require(request.target < tables_.targets.size(), id, "target");
    require(request.application < tables_.paths.size(), id, "application");
    require(request.start_ns >= 0 && request.start_ns <= kMost, id, "start");
    require(request.bytes >= 0 && request.bytes <= kMostBytes, id, "bytes");
    require(request.n_stages <= ServiceStation::kMostStages, id, "number of stages");
    require(request.first_stage <= stages_.size() &&
                request.n_stages <= stages_.size() - request.first_stage,
            id, "first stage");
    for (std::size_t i = 0; i < request.n_stages; ++i) {
        const dcgym_http_stage &stage = stages_[request.first_stage + i];
        require(stage.duration_ns >= 0 && stage.duration_ns <= kMostDemandNs, id, "duration");
        require(stage.resource < tables_.resources.size(), id, "resource");
    }
}

std::string RequestPlan::message(std::size_t id) const {
    const dcgym_http_request &request = requests_[id];
    std::vector<ServiceStage> stages;
    for (std::size_t i = 0; i < request.n_stages; ++i) {
        const dcgym_http_stage &stage = stages_[request.first_stage + i];
        stages.push_back({stage.duration_ns, stage.resource});
    }
    return "GET " + tables_.paths[request.application] + "?" +
           work_query(stages, static_cast<std::uint64_t>(request.bytes), tables_.resources) +
           " HTTP/1.1\r\nHost: " + target(id).text() + "\r\nConnection: close\r\n\r\n";
}

void RequestPlan::clear_results() const {
    if (!memory_)
        return;
    header_->ended = header_->started = header_->late_starts = header_->active = 0;
    std::memset(results_, 0, size() * sizeof(dcgym_http_result));
}

void RequestPlan::write(std::size_t id, const dcgym_http_result &result) const {
    results_[id] = result;
    order_[header_->ended] = id;
    __atomic_store_n(&header_->ended, header_->ended + 1, __ATOMIC_RELEASE);
}

} // namespace dcgym
