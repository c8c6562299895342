// SPDX-License-Identifier: Apache-2.0
// The clock and the scheduled changes; the flows' way is in flow_events.cpp.
#include "simulation.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace dcgym::twin::balancing {
namespace {

constexpr int64_t fairness_interval_ns = 100'000'000;

} // namespace

Simulation::Simulation(std::shared_ptr<const Config> config) : config_(std::move(config)) {
    const auto servers = static_cast<uint32_t>(config_->servers.size());
    first_resource_ = static_cast<uint32_t>(config_->applications.size());
    change_owner_ = first_resource_ + servers * static_cast<uint32_t>(max_resources);
    probe_owner_ = change_owner_ + 1;
    fairness_owner_ = change_owner_ + 2;
    averages_owner_ = change_owner_ + 3;
    modulation_owner_ = change_owner_ + 4;
    message_owner_ = change_owner_ + 5;
    first_user_ = change_owner_ + 6;
    first_flow_ = first_user_ + config_->arrivals.users;
}

void Simulation::reset(uint64_t seed) {
    now_ns_ = 0;
    events_ = next_change_ = 0;
    begun_ns_ = 0;
    seed_ = seed;
    queue_.clear();
    queue_.reserve(first_flow_);
    flows_.clear();
    records_ = {};
    statistics_ = Statistics(config_->applications.size());
    ended_ = ended_after_ns_ = 0;
    assigned_.assign(config_->servers.size(), 0);
    servers_.assign(config_->servers.size(), {});
    for (size_t i = 0; i < servers_.size(); i++)
        servers_[i].configure(config_->servers[i]);
    tables_.assign(config_->balancers, FlowTable(*config_));
    frontends_.clear();
    for (uint32_t i = 0; i < config_->frontends(); i++)
        frontends_.emplace_back(*config_, stream_seed(seed, FlowSource::balancer_stream, i));
    refresh_pools();
    probing_ = Splitmix(stream_seed(seed, FlowSource::probe_stream, 0));
    messaging_ = Splitmix(stream_seed(seed, FlowSource::message_stream, 0));
    messages_ = {};
    moving_.clear();
    counts_ = {};
    open_ = 0;
    drained_ = holds_ = false;
    held_.clear();
    most_flows_ = 0;
    flow_time_ns_ = 0;
    source_ = FlowSource(*config_, seed, modulation_owner_, first_user_);
    source_.begin(queue_);
    plan_change();
    if (config_->probe_interval_ns > 0)
        queue_.schedule(probe_owner_, 0);
    queue_.schedule(averages_owner_, config_->warm_up_ns);
    queue_.schedule(fairness_owner_, config_->warm_up_ns + fairness_interval_ns);
}

void Simulation::advance(int64_t until_ns, Interrupt &call) {
    if (holds_) {
        run_to_choice(until_ns, call);
        return;
    }
    Interrupt::Events events(call);
    queue_.run_until(until_ns, events, [this](const EventQueue::Event &event) {
        now_ns_ = event.time_ns;
        events_++;
        handle(event);
    });
    now_ns_ = std::max(now_ns_, until_ns);
}

void Simulation::drain(int64_t until_ns, Interrupt &call) {
    Interrupt::Events events(call);
    if (!drained_) {
        integrate();
        drained_ = true;
        measured_until_ns_ = now_ns_;
        source_.stop(queue_);
        queue_.cancel(fairness_owner_);
    }
    while (open_ > 0 && !queue_.empty() && queue_.first().time_ns <= until_ns)
        queue_.run_until(queue_.first().time_ns, events, [this](const EventQueue::Event &event) {
            now_ns_ = event.time_ns;
            events_++;
            handle(event);
        });
}

void Simulation::handle(const EventQueue::Event &event) {
    const EventQueue::Owner owner = event.owner();
    if (owner >= first_flow_)
        handle_flow(owner - first_flow_);
    else if (owner < first_resource_)
        arrive(source_.come(owner, now_ns_, queue_), no_user);
    else if (owner >= first_user_)
        arrive(source_.ask(owner - first_user_), owner - first_user_);
    else if (owner < change_owner_)
        end_stage((owner - first_resource_) / max_resources,
                  (owner - first_resource_) % max_resources);
    else if (owner == probe_owner_)
        probe();
    else if (owner == fairness_owner_)
        sample_fairness();
    else if (owner == averages_owner_)
        begin_averages();
    else if (owner == modulation_owner_)
        source_.modulate(queue_);
    else if (owner == message_owner_)
        deliver();
    else
        apply(config_->changes[next_change_++]);
}

// The edge hashes flows over all balancers; only those of a dead one are hashed again, over the
// living. Uses bits that the servers' choice does not use.
uint16_t Simulation::edge(const Flow &flow) const {
    const uint64_t bits = dcgym_mix(flow.hash);
    const uint32_t n = config_->balancers, vip = config_->vips_asked[flow.application];
    const auto frontend = [&](uint32_t balancer) {
        return static_cast<uint16_t>(config_->frontend(balancer, vip));
    };
    const uint16_t first = frontend(dcgym_scale(static_cast<uint32_t>(bits >> 32), n));
    if (frontends_[first].up)
        return first;
    uint32_t living = 0;
    for (uint32_t i = 0; i < n; i++)
        living += frontends_[frontend(i)].up;
    uint32_t rank = living ? dcgym_scale(static_cast<uint32_t>(bits), living) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (frontends_[frontend(i)].up && rank-- == 0)
            return frontend(i);
    return no_frontend;
}

void Simulation::release(Flow &flow) {
    if (!flow.tracked)
        return;
    tables_[config_->balancer_of(flow.frontend)].give_back(flow);
    frontends_[flow.frontend].forget(flow);
}

int64_t Simulation::hop_ns(Flow &flow) {
    return flow.random.between(config_->latency_ns.low, config_->latency_ns.high);
}

void Simulation::send(FlowId id, Phase phase, int hops) {
    Flow &flow = flows_[id];
    int64_t at_ns = now_ns_;
    while (hops-- > 0)
        at_ns += hop_ns(flow);
    flow.phase = phase;
    queue_.schedule(owner(id), at_ns);
}

void Simulation::apply(const ScheduledChange &change) {
    if (change.change == Change::moving_load)
        begin_moving(change);
    for (const uint32_t target : change.targets) {
        switch (change.change) {
        case Change::balancer_failure:
            fail_balancer(target);
            break;
        case Change::balancer_recovery:
            for (size_t vip = 0; vip < config_->members.size(); vip++)
                frontends_[config_->frontend(target, vip)].up = true;
            break;
        case Change::rate:
            source_.change_rate(target, change.value, now_ns_, queue_);
            break;
        default:
            apply_to_server(change, target);
        }
    }
    refresh_pools();
    plan_change();
}

void Simulation::plan_change() {
    if (next_change_ < config_->changes.size())
        queue_.schedule(change_owner_,
                        std::max(now_ns_, begun_ns_ + config_->changes[next_change_].at_ns));
}

void Simulation::apply_to_server(const ScheduledChange &change, uint32_t target) {
    Server &server = servers_[target];
    switch (change.change) {
    case Change::capacity:
        server.factor = change.value;
        break;
    case Change::colocated_load:
        server.colocated = change.value;
        break;
    case Change::add_server:
        server.up = server.eligible = true;
        break;
    case Change::drain_server:
        server.eligible = false;
        break;
    case Change::fail_fast:
        server.fail_share = change.value;
        return;
    case Change::gray_failure:
        server.gray_share = change.value;
        return;
    case Change::false_reports:
        server.report_factor = change.value;
        return;
    case Change::flapping:
        return begin_flapping(target, change.value);
    case Change::remove_server:
        remove_server(target);
        return;
    case Change::moving_load: // of all its targets at once
    default:
        return;
    }
    settle(target);
}

// The flows at the server are lost; those still on their way find nobody there.
void Simulation::remove_server(uint32_t target) {
    for (FlowId id = 0; id < flows_.size(); id++) {
        Flow &flow = flows_[id];
        if (flow.phase != Phase::at_server || flow.server != target)
            continue;
        assigned_[target]--;
        release(flow);
        if (!flow.reported)
            note_end(flow, Outcome::lost, now_ns_);
        forget(id);
    }
    Server &server = servers_[target];
    server.clear(now_ns_);
    server.up = server.eligible = false;
    settle(target);
}

void Simulation::fail_balancer(uint32_t target) {
    for (FlowId id = 0; id < flows_.size(); id++)
        if (flows_[id].phase != Phase::free && flows_[id].frontend != no_frontend &&
            config_->balancer_of(flows_[id].frontend) == target)
            flows_[id].tracked = flows_[id].connected = flows_[id].counted = false;
    tables_[target].clear();
    for (size_t vip = 0; vip < config_->members.size(); vip++) {
        Frontend &frontend = frontends_[config_->frontend(target, vip)];
        frontend.up = false;
        frontend.restart();
    }
}

void Simulation::set_in_service(const uint8_t *flags) {
    bool is_new = false;
    for (size_t i = 0; i < servers_.size(); i++) {
        is_new |= servers_[i].in_service != (flags[i] != 0);
        servers_[i].in_service = flags[i] != 0;
    }
    if (is_new)
        refresh_pools();
}

void Simulation::refresh_pools() {
    for (size_t vip = 0; vip < config_->members.size(); vip++) {
        std::vector<uint16_t> pool;
        for (size_t i = 0; i < servers_.size(); i++)
            if (servers_[i].takes_flows() && config_->members[vip][i])
                pool.push_back(static_cast<uint16_t>(i));
        for (size_t balancer = 0; balancer < config_->balancers; balancer++)
            frontends_[config_->frontend(balancer, vip)].set_pool(pool);
    }
}

// All servers of an address are asked at once; each answer takes its time.
void Simulation::probe() {
    const Range &delay_ns = config_->probe_delay_ns;
    for (size_t at = 0; at < frontends_.size(); at++) {
        const std::vector<uint8_t> &members = config_->members[config_->vip_of(at)];
        for (uint16_t i = 0; i < servers_.size(); i++) {
            if (!members[i])
                continue;
            counts_.polls++;
            frontends_[at].ask(i, {now_ns_, servers_[i].told(servers_[i].busy()),
                                   servers_[i].told(servers_[i].queue),
                                   now_ns_ + probing_.between(delay_ns.low, delay_ns.high),
                                   static_cast<int64_t>(servers_[i].answered),
                                   static_cast<int64_t>(servers_[i].errors)});
        }
    }
    queue_.schedule(probe_owner_, now_ns_ + config_->probe_interval_ns);
}

void Simulation::sample_fairness() {
    scratch_.clear();
    for (const Server &server : servers_)
        if (server.up)
            scratch_.push_back(server.queue / (server.processors().config.workers *
                                               server.processors().config.speed));
    statistics_.queue.add(scratch_);
    scratch_.clear();
    for (size_t i = 0; i < servers_.size(); i++)
        if (servers_[i].up)
            scratch_.push_back(remaining_ns(i));
    statistics_.remaining.add(scratch_);
    queue_.schedule(fairness_owner_, now_ns_ + fairness_interval_ns);
}

void Simulation::begin_averages() {
    counts_ = {};
    for (Server &server : servers_) {
        server.integrate(now_ns_);
        server.queue_time_ns = server.busy_time_ns = 0;
        server.flows = server.completed = 0;
    }
}

void Simulation::integrate() {
    if (drained_)
        return;
    totals_.clear();
    for (Server &server : servers_) {
        server.integrate(now_ns_);
        totals_.push_back(
            {server.queue_time_ns, server.busy_time_ns, server.flows, server.completed});
    }
}

int64_t Simulation::measured_ns() const {
    const int64_t end_ns = drained_ ? measured_until_ns_ : now_ns_;
    return std::max<int64_t>(0, end_ns - config_->warm_up_ns);
}

Records Simulation::take_records() {
    return std::exchange(records_, {});
}

double Simulation::remaining_ns(size_t server) const {
    return servers_[server].up ? servers_[server].remaining_ns(now_ns_, {}) : 0;
}

} // namespace dcgym::twin::balancing
