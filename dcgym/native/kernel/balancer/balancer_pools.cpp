// SPDX-License-Identifier: Apache-2.0
#include "balancer_pools.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "alias.h"
#include "fixed_weights.h"
#include "rule_info.h"
#include "common/bpf_object.hpp"
#include "common/clock.hpp"

namespace dcgym {
namespace {

// The kernel lays the values of an array map out at multiples of 8 bytes.
static_assert(sizeof(dcgym_lb_region) % 8 == 0);

uint32_t known(uint32_t rule) {
    if (rule >= DCGYM_N_RULES || dcgym_describe_rule(rule)->knows == DCGYM_KNOWS_TRUTH)
        throw_config_error("rule", std::to_string(rule),
                           "a rule that needs nothing but what a balancer sees or is told");
    return rule;
}

void check_servers(const std::vector<uint16_t> &servers) {
    __u64 seen[DCGYM_SET_WORDS(DCGYM_LB_SERVERS)] = {};
    for (const uint16_t server : servers) {
        if (server >= DCGYM_LB_SERVERS)
            throw_config_error("servers", std::to_string(server),
                               "0 to " + std::to_string(DCGYM_LB_SERVERS - 1));
        if (dcgym_set_has(seen, server))
            throw_config_error("servers", std::to_string(server), "each number once");
        dcgym_set_add(seen, server);
    }
}

void check_weights(const std::vector<double> &weights, size_t n_servers) {
    if (weights.size() != n_servers)
        throw_config_error("weights", std::to_string(weights.size()) + " weights",
                           std::to_string(n_servers) + " weights, one a server");
    for (const double weight : weights)
        if (!std::isfinite(weight) || weight <= 0)
            throw_config_error("weights", std::to_string(weight), "finite and above 0");
}

} // namespace

BalancerPools::BalancerPools(int region_map_fd, uint32_t n_vips)
    : n_vips_(n_vips),
      mapping_(std::make_unique<Mapping>(region_map_fd, n_vips * sizeof(dcgym_lb_region), true)),
      pools_(n_vips) {
    for (uint32_t vip = 0; vip < n_vips; vip++)
        pools_[vip] = in_force(vip);
}

// What the writer before left; nobody else writes now, so the newest pool stands still.
Pool BalancerPools::in_force(uint32_t vip) const {
    const dcgym_lb_pool *newest = region(vip).pools;
    for (const dcgym_lb_pool &pool : region(vip).pools)
        if (pool.sequence > newest->sequence)
            newest = &pool;
    return {newest->rule,
            {newest->server, newest->server + newest->n},
            {newest->weight, newest->weight + newest->n}};
}

dcgym_lb_region &BalancerPools::region(uint32_t vip) const {
    if (vip >= n_vips_)
        throw_config_error("vip", std::to_string(vip), "0 to " + std::to_string(n_vips_ - 1));
    return reinterpret_cast<dcgym_lb_region *>(mapping_->data())[vip];
}

Pool &BalancerPools::pool(uint32_t vip) {
    region(vip);
    return pools_[vip];
}

void BalancerPools::replace(uint32_t vip, Pool replacement) {
    known(replacement.rule);
    check_servers(replacement.servers);
    check_weights(replacement.weights, replacement.servers.size());
    pool(vip) = std::move(replacement);
    publish(vip);
}

void BalancerPools::set_rule(uint32_t vip, uint32_t rule) {
    pool(vip).rule = known(rule);
    publish(vip);
}

void BalancerPools::set_weights(uint32_t vip, const double *weights, size_t n_weights) {
    std::vector<double> replacement(weights, weights + n_weights);
    check_weights(replacement, pool(vip).servers.size());
    pool(vip).weights = std::move(replacement);
    publish(vip);
}

void BalancerPools::publish(uint32_t vip) {
    const Pool &source = pool(vip);
    dcgym_lb_region &to = region(vip);
    const auto n = static_cast<uint32_t>(source.servers.size());
    const uint64_t sequence = dcgym_lb_open(to.pools, sizeof(dcgym_lb_pool));
    dcgym_lb_pool &buffer = to.pools[sequence % DCGYM_LB_BUFFERS];
    buffer.time_ns = monotonic_ns();
    buffer.rule = source.rule;
    buffer.n = n;
    std::fill(std::begin(buffer.members), std::end(buffer.members), 0);
    for (const uint16_t server : source.servers)
        dcgym_set_add(buffer.members, server);
    std::copy(source.servers.begin(), source.servers.end(), buffer.server);
    dcgym_fixed_weights(source.weights.data(), n, buffer.weight);
    if (n > 0)
        dcgym_alias_build(buffer.weight, n, buffer.alias);
    dcgym_lb_publish(to.pools, sizeof(dcgym_lb_pool), sequence);
}

} // namespace dcgym
