// SPDX-License-Identifier: Apache-2.0
// A server: its resources, and what the balancers' rules and the statistics ask of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "flow.hpp"
#include "latency_ring.hpp"
#include "shared_resource.hpp"

namespace dcgym::twin::balancing {

// A resource of one server, with the flows that wait for it.
struct ServerResource {
    ResourceConfig config;
    SharedResource jobs;
    FlowId first_waiting = no_flow;
    FlowId last_waiting = no_flow;
    uint32_t waiting = 0;
    uint32_t limit = 0; // of the flows here
    // Demand of the flows placed here that is not in service yet, later stages included.
    int64_t pending_ns = 0;

    bool has_slot() const { return jobs.size() < config.slots; }
    bool full() const { return jobs.size() + waiting >= limit; }
    void clear();
    void enqueue(FlowStore &flows, FlowId id);
    FlowId dequeue(FlowStore &flows);
};

// Events, backlog, weights and counts of busy workers are about the first resource, the processors.
struct Server {
    uint32_t handshaking = 0; // accepted, the request is still to come
    uint32_t queue = 0;       // flows here: waiting or in service, at whatever resource
    uint32_t epoch = 0;       // grows when the server is removed, with its flows
    bool up = false;
    bool eligible = false;      // may take new flows, as far as events go
    bool in_service = true;     // and as far as commands go
    double factor = 1;          // of the processors' first speed
    double colocated = 0;       // other CPU-bound processes that stay
    double visiting = 0;        // and those of loads that move between servers
    double mean_service_ns = 0; // exponentially weighted; 0 before the first
    double fail_share = 0;      // of the requests that it answers with an error at once
    double gray_share = 0;      // of the requests that it serves slowly
    double report_factor = 1;   // of the load that it reports to the true one
    uint32_t flap_epoch = 0;    // grows with each event `flapping`
    uint64_t answered = 0;      // requests since it began, errors included
    uint64_t errors = 0;        // of these
    LatencyRing latencies;
    // Integrals over time since averages began.
    int64_t since_ns = 0;
    int64_t queue_time_ns = 0;
    int64_t busy_time_ns = 0;
    uint64_t flows = 0;
    uint64_t completed = 0;
    // Inside the server, not behind a pointer: every event of a flow looks here.
    size_t n_resources = 0;
    std::array<ServerResource, max_resources> all_resources;

    void configure(const ServerConfig &config);

    std::span<ServerResource> resources() { return {all_resources.data(), n_resources}; }
    std::span<const ServerResource> resources() const {
        return {all_resources.data(), n_resources};
    }
    const ServerResource &processors() const { return all_resources.front(); }
    uint32_t busy() const {
        const auto n = static_cast<uint32_t>(processors().jobs.size());
        return n < processors().config.workers ? n : processors().config.workers;
    }
    // A newcomer is turned away where all slots and the whole backlog are taken.
    bool full(uint32_t backlog) const {
        return handshaking + processors().waiting + processors().jobs.size() >=
               processors().config.slots + static_cast<size_t>(backlog);
    }

    bool takes_flows() const { return eligible && in_service; }
    void clear(int64_t now_ns);
    void integrate(int64_t now_ns);
    // Must follow every change of the jobs, the speed or the co-located load.
    void update_rates(int64_t now_ns);

    // Demand a time unit that a resource serves when all its workers are busy.
    double capacity(size_t resource) const;
    // Time to do all that is placed here and more (by resource), by the resources' full speed.
    double remaining_ns(int64_t now_ns, const Demand &more_ns) const;
    // Report of a Charon server: flows a tick, as a score (rules.h).
    uint64_t reported_speed() const;
    void note_service(int64_t service_ns);
    // A load as it tells it.
    uint32_t told(uint32_t load) const {
        return report_factor == 1 ? load : static_cast<uint32_t>(load * report_factor + 0.5);
    }
};

} // namespace dcgym::twin::balancing
