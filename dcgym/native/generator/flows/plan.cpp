// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace dcgym {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 60;
constexpr std::size_t kMostFlows = std::size_t{1} << 24;
constexpr std::size_t kMostNameChars = 15;
constexpr std::int64_t kWaitsForNone = -1;

std::vector<dcgym_generator_flow> read_flows(int fd, std::size_t n_flows) {
    if (n_flows > kMostFlows)
        throw std::invalid_argument("a plan of more than 2^24 flows");
    const std::size_t size_bytes = n_flows * sizeof(dcgym_generator_flow);
    struct stat status {};
    // Before the memory is taken: a wrong number asks for a gigabyte of it.
    if (fstat(fd, &status) != 0 || static_cast<std::size_t>(status.st_size) < size_bytes)
        throw std::invalid_argument("the plan is shorter than it says");
    std::vector<dcgym_generator_flow> flows(n_flows);
    auto *out = reinterpret_cast<char *>(flows.data());
    for (std::size_t done = 0; done < size_bytes;) {
        const ssize_t got = pread(fd, out + done, size_bytes - done, static_cast<off_t>(done));
        if (got <= 0)
            throw std::invalid_argument("the plan is shorter than it says");
        done += static_cast<std::size_t>(got);
    }
    return flows;
}

void require(bool good, std::size_t id, const char *field) {
    if (!good)
        throw std::invalid_argument("wrong " + std::string{field} + " in flow " +
                                    std::to_string(id));
}

bool within(std::int64_t value, std::int64_t low, std::int64_t high) {
    return value >= low && value <= high;
}

/// A limit is absent or positive.
bool is_limit(std::int64_t value) {
    return value == kUnlimited || within(value, 1, kMost);
}

} // namespace

Plan::Plan(int fd, std::size_t n_flows, std::vector<std::string> congestion_controls)
    : flows_{read_flows(fd, n_flows)}, congestion_controls_{std::move(congestion_controls)} {
    for (const std::string &name : congestion_controls_)
        if (name.size() > kMostNameChars)
            throw std::invalid_argument("no congestion control has so long a name: " + name);
    for (std::size_t id = 0; id < n_flows; ++id)
        check_flow(id);
    sort_starts();
    sort_successors();
}

void Plan::check_flow(std::size_t id) const {
    const dcgym_generator_flow &flow = flows_[id];
    const std::size_t n_hosts = congestion_controls_.size();
    const bool udp = flow.transport == DCGYM_GENERATOR_UDP;
    require(flow.src < n_hosts, id, "source");
    require(flow.dst < n_hosts && flow.dst != flow.src, id, "destination");
    require(flow.transport <= DCGYM_GENERATOR_UDP, id, "transport");
    require(within(flow.port, 1, 65535), id, "port");
    require(within(flow.start_ns, 0, kMost), id, "start");
    require(is_limit(flow.size_bytes), id, "size");
    require(is_limit(flow.duration_ns), id, "duration");
    require(is_limit(flow.rate_bps) && !(udp && flow.rate_bps == kUnlimited), id, "rate");
    require(within(flow.repetitions, 0, kMost), id, "repetitions");
    require(within(flow.gap_ns, 0, kMost), id, "gap");
    require(within(flow.after, kWaitsForNone, static_cast<std::int64_t>(id) - 1), id, "after");
}

void Plan::sort_starts() {
    for (std::size_t id = 0; id < flows_.size(); ++id)
        if (flows_[id].after == kWaitsForNone)
            by_start_.push_back(static_cast<std::uint32_t>(id));
    std::stable_sort(by_start_.begin(), by_start_.end(), [this](auto left, auto right) {
        return flows_[left].start_ns < flows_[right].start_ns;
    });
}

void Plan::sort_successors() {
    first_successor_.assign(flows_.size() + 1, 0);
    for (const auto &flow : flows_)
        if (flow.after != kWaitsForNone)
            ++first_successor_[static_cast<std::size_t>(flow.after) + 1];
    std::partial_sum(first_successor_.begin(), first_successor_.end(), first_successor_.begin());
    successors_.resize(first_successor_.back());
    Numbers next = first_successor_;
    for (std::size_t id = 0; id < flows_.size(); ++id)
        if (flows_[id].after != kWaitsForNone)
            successors_[next[static_cast<std::size_t>(flows_[id].after)]++] =
                static_cast<std::uint32_t>(id);
}

const std::string &Plan::congestion_control(std::size_t id) const {
    return congestion_controls_[flows_[id].src];
}

std::span<const std::uint32_t> Plan::successors(std::size_t id) const {
    const std::uint32_t first = first_successor_[id];
    return {successors_.data() + first, first_successor_[id + 1] - first};
}

RunSpec Plan::run(std::size_t id, std::uint64_t repetition, std::int64_t planned_start_ns) const {
    const dcgym_generator_flow &from = flows_[id];
    RunSpec spec;
    spec.flow_id = id;
    spec.repetition = repetition;
    spec.src = from.src;
    spec.dst = from.dst;
    spec.udp = from.transport == DCGYM_GENERATOR_UDP;
    spec.port = static_cast<std::uint16_t>(from.port);
    spec.planned_start_ns = planned_start_ns;
    spec.size_bytes = from.size_bytes;
    spec.duration_ns = from.duration_ns;
    spec.rate_bps = from.rate_bps;
    spec.congestion_control = congestion_control(id);
    return spec;
}

} // namespace dcgym
