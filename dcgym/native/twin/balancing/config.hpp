// SPDX-License-Identifier: Apache-2.0
// A scenario in numbers, as dcgym.backends.simulation.plain hands it over; checked there.
#pragma once

#include <cstdint>
#include <vector>

#include "core/flow_source.hpp"
#include "prequal_settings.hpp"
#include "shared_resource.hpp"

namespace dcgym::twin::balancing {

enum class Change : uint8_t {
#define DCGYM_ROW(symbol, ...) symbol,
#include "tables/pool_events.h"
};

struct ServerConfig {
    double weight;
    bool present;
    std::vector<ResourceConfig> resources; // as many as every other server has
    std::vector<uint32_t> limits;          // of the flows at each, those that wait included
};

struct ScheduledChange {
    int64_t at_ns;
    Change change;
    std::vector<uint32_t> targets;
    double value;
    int64_t period_ns; // of moving_load
};

struct Range {
    int64_t low, high;
};

struct Config : FlowWorkload {
    std::vector<ServerConfig> servers;
    size_t resources; // of each server
    uint32_t balancers;
    std::vector<std::vector<uint8_t>> members; // by virtual address: whether each server answers
    std::vector<uint32_t> vips_asked;          // by application: the virtual address
    uint32_t backlog;
    uint32_t flow_table_buckets;
    uint32_t flow_table_ways;
    uint32_t half_open_limit;
    int64_t syn_timeout_ns;
    Range latency_ns;
    int64_t packet_interval_ns;
    int64_t probe_interval_ns;
    Range probe_delay_ns;
    double message_loss;    // share of the messages
    double message_copies;  // share of the probes' answers that come twice
    Range message_delay_ns; // beside the latency
    PrequalConfig prequal;
    int64_t c3_reset_ns = 0;
    std::vector<ScheduledChange> changes;
    int64_t warm_up_ns;
    size_t record_limit;

    // Each virtual address at each balancer, balancer by balancer.
    size_t frontends() const { return balancers * members.size(); }
    size_t frontend(size_t balancer, size_t vip) const { return balancer * members.size() + vip; }
    size_t balancer_of(size_t frontend) const { return frontend / members.size(); }
    size_t vip_of(size_t frontend) const { return frontend % members.size(); }
};

} // namespace dcgym::twin::balancing
