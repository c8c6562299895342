// SPDX-License-Identifier: Apache-2.0
#include "frontend.hpp"

#include <algorithm>
#include <utility>

#include "fixed_weights.h"
#include "rule_info.h"

namespace dcgym::twin::balancing {
namespace {

// Weights by server, the largest being 1.
std::vector<double> scaled(const double *weights, size_t n) {
    std::vector<double> found(weights, weights + n);
    const double largest = *std::max_element(found.begin(), found.end());
    for (double &weight : found)
        weight /= largest;
    return found;
}

bool draws_by_weight(uint32_t rule) {
    return rule == DCGYM_RULE_WCMP || rule == DCGYM_RULE_AWCMP || rule == DCGYM_RULE_WSAPP ||
           rule == DCGYM_RULE_BALANCED;
}

// Whether a rule is dcgym_least_delay over the balancer's own flows.
bool looks_for_least_delay(uint32_t rule) {
    return rule == DCGYM_RULE_LSQ || rule == DCGYM_RULE_SED || rule == DCGYM_RULE_SED_HALF ||
           rule == DCGYM_RULE_WEIGHTED;
}

bool uses_learned(uint32_t rule) {
    return dcgym_describe_rule(rule)->weights == DCGYM_WEIGHTS_LEARNED;
}

} // namespace

Frontend::Frontend(const Config &config, uint64_t seed)
    : config_(config), random_(seed), sampling_(dcgym_mix(seed)), places_(config.prequal.places()) {
    const size_t n = config.servers.size();
    std::vector<double> weights;
    for (const ServerConfig &server : config.servers)
        weights.push_back(server.weight);
    configured_ = scaled(weights.data(), n);
    learned_.assign(n, 1.0);
    features.resize(n);
    answered_.resize(n);
    asked_.resize(n);
    restart();
}

void Frontend::restart() {
    const size_t n = config_.servers.size();
    ongoing_.assign(n, 0);
    rebuild_tree();
    score_.assign(n, {});
    turns_.assign(n, {});
    clock_ = 0;
    idle_ = {};
    prequal.clear();
    heard_.assign(n, {});
    met_ = {};
    for (ServerFeatures &server : features)
        server = {};
    interarrival.clear();
    syns = untracked = timeouts = 0;
    last_syn_ns_ = -1;
    turn_ = half_open_ = 0;
}

void Frontend::set_rule(uint32_t rule) {
    rule_ = rule;
    rebuild();
}

void Frontend::set_weights(const double *weights) {
    std::vector<double> learned = scaled(weights, config_.servers.size());
    if (learned == learned_)
        return;
    learned_ = std::move(learned);
    if (uses_learned(rule_))
        rebuild();
}

void Frontend::set_pool(const std::vector<uint16_t> &servers) {
    pool_ = servers;
    rebuild();
}

void Frontend::rebuild() {
    version_++;
    const std::vector<double> &weights = uses_learned(rule_) ? learned_ : configured_;
    const auto n = static_cast<uint32_t>(pool_.size());
    const size_t readable = (pool_.size() / DCGYM_RULE_STRIDE + 1) * DCGYM_RULE_STRIDE;
    pool_server_ = pool_;
    pool_server_.resize(readable);
    pool_weight_.resize(readable);
    pool_alias_.resize(readable);
    // Of the pool alone: a server that is not in it changes nothing.
    pool_ratio_.resize(n);
    for (uint32_t i = 0; i < n; i++)
        pool_ratio_[i] = weights[pool_[i]];
    dcgym_fixed_weights(pool_ratio_.data(), n, pool_weight_.data());
    if (draws_by_weight(rule_) && n > 0)
        dcgym_alias_build(pool_weight_.data(), n, pool_alias_.data());
    position_.assign(config_.servers.size(), static_cast<uint16_t>(n));
    for (uint16_t i = 0; i < n; i++)
        position_[pool_[i]] = i;
    members_.assign(DCGYM_SET_WORDS(DCGYM_RULE_SERVERS), 0);
    for (const uint16_t server : pool_)
        dcgym_set_add(members_.data(), server);
    rebuild_tree();
}

void Frontend::rebuild_tree() {
    if (pool_.empty() || !looks_for_least_delay(rule_))
        return tree_.clear();
    const uint32_t *weight = rule_ == DCGYM_RULE_LSQ ? nullptr : pool_weight_.data();
    tree_.build(pool_, weight, ongoing_, rule_ == DCGYM_RULE_SED_HALF);
}

void Frontend::count(uint16_t server, int more) {
    ongoing_[server] += more;
    if (!tree_.empty() && position_[server] < pool_.size())
        tree_.update(position_[server], ongoing_[server]);
}

double Frontend::weight(uint16_t server) const {
    return (uses_learned(rule_) ? learned_ : configured_)[server];
}

dcgym_pool_view Frontend::pool_view() const {
    return {static_cast<uint32_t>(pool_.size()), pool_server_.data(), pool_weight_.data(),
            pool_alias_.data()};
}

uint16_t Frontend::choose(uint64_t hash, int64_t now_ns) {
    if (!tree_.empty())
        return pool_[tree_.choose(&random_)];
    const dcgym_pool_view view = pool_view();
    const dcgym_told_view told{heard_.data(),
                               &idle_,
                               &prequal.pool,
                               &places_,
                               members_.data(),
                               &met_,
                               static_cast<uint64_t>(config_.c3_reset_ns),
                               config_.balancers};
    dcgym_state_view state{&random_, &turn_, ongoing_.data(), score_.data(), turns_.data(),
                           &clock_,  &told};
    return static_cast<uint16_t>(
        dcgym_choose(rule_, &view, &state, hash, static_cast<uint64_t>(now_ns)));
}

uint16_t Frontend::fallback(uint64_t hash) const {
    const dcgym_pool_view view = pool_view();
    return static_cast<uint16_t>(dcgym_fallback(rule_, &view, hash));
}

void Frontend::new_flow(const Flow &flow, int64_t now_ns) {
    if (last_syn_ns_ >= 0)
        interarrival.add(sampling_.next(), now_ns, now_ns - last_syn_ns_);
    last_syn_ns_ = now_ns;
    syns++;
    untracked += !flow.tracked;
}

void Frontend::placed(Flow &flow) {
    if (!flow.tracked || half_open_ >= config_.half_open_limit)
        return;
    flow.counted = true;
    half_open_++;
    count(flow.server, 1);
}

void Frontend::report(const Flow &flow, int64_t now_ns) {
    if (!flow.covert)
        return dcgym_c3_report(&heard_[flow.server], flow.reported_flows,
                               static_cast<uint64_t>(flow.reported_service_ns));
    dcgym_score_report(&score_[flow.server], flow.reported_flows, flow.reported_speed,
                       static_cast<uint64_t>(now_ns));
}

void Frontend::connected(Flow &flow, int64_t now_ns) {
    ServerFeatures &server = features[flow.server];
    flow.connected = true;
    server.flows++;
    if (flow.counted)
        half_open_--;
    else
        count(flow.server, 1);
    flow.counted = true;
    dcgym_reservoir_add(&server.handshake, static_cast<uint32_t>(sampling_.next() >> 32),
                        static_cast<uint64_t>(now_ns), static_cast<uint64_t>(now_ns - flow.syn_ns));
}

void Frontend::packet(const Flow &flow, int64_t now_ns) {
    if (flow.tracked && flow.connected)
        features[flow.server].duration.add(sampling_.next(), now_ns, now_ns - flow.syn_ns);
}

void Frontend::ended(const Flow &flow, int64_t now_ns) {
    if (!flow.tracked || !flow.connected)
        return;
    ServerFeatures &server = features[flow.server];
    server.completion.add(sampling_.next(), now_ns, now_ns - flow.syn_ns);
    server.completed++;
    const auto response_ns = static_cast<uint64_t>(now_ns - flow.syn_ns);
    dcgym_peak_sample(&heard_[flow.server], response_ns, static_cast<uint64_t>(now_ns));
    dcgym_c3_respond(&heard_[flow.server], response_ns);
}

void Frontend::forget(Flow &flow) {
    if (flow.counted) {
        count(flow.server, -1);
        half_open_ -= !flow.connected;
    }
    flow.tracked = flow.connected = flow.counted = false;
}

void Frontend::ask(uint16_t server, const Probe &found) {
    // An answer never takes longer than the time between two polls.
    answered_[server] = asked_[server];
    asked_[server] = found;
}

const Probe &Frontend::probe(uint16_t server, int64_t now_ns) const {
    return asked_[server].answer_ns <= now_ns ? asked_[server] : answered_[server];
}

void Frontend::publish(dcgym_lb_region &region, int64_t now_ns) const {
    const auto time_ns = static_cast<uint64_t>(now_ns);
    region.header = {DCGYM_LB_MAGIC, DCGYM_LB_VERSION, features.size(), time_ns, time_ns};
    region.interarrival = interarrival.samples;
    for (size_t i = 0; i < features.size(); i++)
        region.samples[i] = {features[i].duration.samples, features[i].completion.samples,
                             features[i].handshake};
    constexpr uint64_t snapshot_stride = sizeof(dcgym_lb_snapshot);
    const uint64_t sequence = dcgym_lb_open(region.snapshots, snapshot_stride);
    fill(region.snapshots[sequence % DCGYM_LB_BUFFERS], time_ns);
    dcgym_lb_publish(region.snapshots, snapshot_stride, sequence);
    const uint64_t pool_sequence = dcgym_lb_open(region.pools, sizeof(dcgym_lb_pool));
    fill(region.pools[pool_sequence % DCGYM_LB_BUFFERS], time_ns);
    dcgym_lb_publish(region.pools, sizeof(dcgym_lb_pool), pool_sequence);
}

void Frontend::fill(dcgym_lb_snapshot &snapshot, uint64_t time_ns) const {
    snapshot.time_ns = time_ns;
    std::copy_n(members_.begin(), std::size(snapshot.active), snapshot.active);
    snapshot.syns = syns;
    snapshot.untracked = untracked;
    snapshot.timeouts = timeouts;
    for (size_t i = 0; i < features.size(); i++)
        snapshot.servers[i] = {features[i].packets, features[i].flows, features[i].completed,
                               ongoing_[i]};
}

void Frontend::fill(dcgym_lb_pool &pool, uint64_t time_ns) const {
    pool.time_ns = time_ns;
    pool.rule = rule_;
    pool.n = static_cast<uint32_t>(pool_.size());
    std::copy_n(members_.begin(), std::size(pool.members), pool.members);
    std::copy(pool_.begin(), pool_.end(), pool.server);
    std::copy_n(pool_weight_.begin(), pool_.size(), pool.weight);
    std::copy_n(pool_alias_.begin(), pool_.size(), pool.alias);
}

} // namespace dcgym::twin::balancing
