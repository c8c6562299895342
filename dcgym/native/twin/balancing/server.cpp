// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include <algorithm>

namespace dcgym::twin::balancing {
namespace {

constexpr double service_memory = 0.1; // weight of a new service time in the mean

} // namespace

void ServerResource::clear() {
    jobs.clear();
    first_waiting = last_waiting = no_flow;
    waiting = 0;
    pending_ns = 0;
}

void ServerResource::enqueue(FlowStore &flows, FlowId id) {
    flows[id].next = no_flow;
    if (waiting++ == 0)
        first_waiting = id;
    else
        flows[last_waiting].next = id;
    last_waiting = id;
}

FlowId ServerResource::dequeue(FlowStore &flows) {
    const FlowId id = first_waiting;
    first_waiting = flows[id].next;
    waiting--;
    return id;
}

void Server::configure(const ServerConfig &config) {
    up = eligible = config.present;
    n_resources = config.resources.size();
    for (size_t r = 0; r < n_resources; r++) {
        all_resources[r].config = config.resources[r];
        all_resources[r].limit = config.limits[r];
    }
}

void Server::clear(int64_t now_ns) {
    integrate(now_ns);
    for (ServerResource &resource : resources())
        resource.clear();
    handshaking = queue = 0;
    mean_service_ns = 0;
    answered = errors = 0;
    latencies = {};
    epoch++;
}

void Server::integrate(int64_t now_ns) {
    const int64_t passed_ns = now_ns - since_ns;
    queue_time_ns += queue * passed_ns;
    busy_time_ns += busy() * passed_ns;
    since_ns = now_ns;
}

void Server::update_rates(int64_t now_ns) {
    ServerResource &first = all_resources.front();
    first.jobs.set_rate(now_ns, first.config.rate(first.jobs.size(), factor, colocated + visiting));
    for (ServerResource &other : resources().subspan(1))
        other.jobs.set_rate(now_ns, other.config.rate(other.jobs.size()));
}

double Server::capacity(size_t resource) const {
    const ResourceConfig &config = all_resources[resource].config;
    const double workers = config.workers;
    if (resource > 0)
        return config.speed * workers;
    return config.speed * factor * workers * workers / (workers + colocated + visiting);
}

double Server::remaining_ns(int64_t now_ns, const Demand &more_ns) const {
    double sum_ns = 0;
    for (size_t r = 0; r < n_resources; r++) {
        const ServerResource &resource = all_resources[r];
        const double left_ns =
            resource.jobs.all_left(now_ns) + static_cast<double>(resource.pending_ns + more_ns[r]);
        sum_ns += left_ns / capacity(r);
    }
    return sum_ns;
}

uint64_t Server::reported_speed() const {
    if (mean_service_ns <= 0)
        return 0;
    // The newcomer, whose handshake this answers, is one of them: else an idle server had speed 0.
    const uint32_t flows_served = std::min(queue + handshaking, processors().config.workers);
    const double per_tick = flows_served * double(1 << DCGYM_TICK_SHIFT) / mean_service_ns;
    return static_cast<uint64_t>(std::min(per_tick * double(DCGYM_SCORE_ONE), 0x1p35));
}

void Server::note_service(int64_t service_ns) {
    const auto service = static_cast<double>(service_ns);
    mean_service_ns += (mean_service_ns <= 0 ? 1 : service_memory) * (service - mean_service_ns);
}

} // namespace dcgym::twin::balancing
