// SPDX-License-Identifier: Apache-2.0
// A flow's way through the network, one function per event; what servers do is in service.cpp.
#include "simulation.hpp"

#include <algorithm>

namespace dcgym::twin::balancing {

void Simulation::arrive(size_t app, uint32_t user) {
    const FlowId id = flows_.take();
    if (owner(id) >= EventQueue::max_owners)
        throw Refusal("over 16 million flows in flight: the servers are overloaded");
    queue_.reserve(owner(id) + 1);
    Flow &flow = flows_[id];
    flow = {};
    static_cast<DrawnFlow &>(flow) = source_.draw(app, now_ns_);
    flow.user = user;
    flow.served_ns = flow.end_ns = -1;
    flow.finish = -1;
    flow.server = no_server;
    flow.frontend = no_frontend;
    flow.outcome = Outcome::under_way;
    open_++;
    if (source_.drawn() == most_flows_)
        source_.stop(queue_);
    if (now_ns_ >= config_->warm_up_ns)
        statistics_.arrivals++;
    send(id, Phase::syn_at_balancer, 1);
}

void Simulation::ask_again(Flow &flow, int64_t end_ns) {
    if (flow.user == no_user)
        return;
    source_.ask_again(flow.user, end_ns, queue_);
    flow.user = no_user;
}

void Simulation::handle_flow(FlowId id) {
    switch (flows_[id].phase) {
    case Phase::syn_at_balancer:
        return syn_at_balancer(id);
    case Phase::syn_at_server:
        return syn_at_server(id);
    case Phase::report_at_balancer:
        return report_at_balancer(id);
    case Phase::data_at_balancer:
        return data_at_balancer(id);
    case Phase::data_at_server:
        return data_at_server(id);
    case Phase::at_server:
        return packet_at_balancer(id);
    case Phase::end_at_balancer:
        return end_at_balancer(id);
    case Phase::entry_timeout:
        return entry_timeout(id);
    case Phase::free:
        return;
    }
}

void Simulation::syn_at_balancer(FlowId id) {
    if (begun_ns_ < 0) {
        begun_ns_ = now_ns_;
        plan_change();
    }
    Flow &flow = flows_[id];
    flow.frontend = edge(flow);
    if (flow.frontend == no_frontend) {
        note_end(flow, Outcome::lost, now_ns_);
        return forget(id);
    }
    Frontend &frontend = frontends_[flow.frontend];
    flow.syn_ns = now_ns_;
    flow.covert = frontend.covert();
    flow.reporting = frontend.takes_reports();
    flow.tracked = tables_[config_->balancer_of(flow.frontend)].take(flow);
    frontend.new_flow(flow, now_ns_);
    statistics_.untracked += !flow.tracked && flow.arrival_ns >= config_->warm_up_ns;
    if (waits(flow))
        return held_.push_back(id);
    enter(id, place(frontend, flow));
}

// The flow goes to a server; to none it is lost.
void Simulation::enter(FlowId id, uint16_t number) {
    Flow &flow = flows_[id];
    Frontend &frontend = frontends_[flow.frontend];
    flow.server = number;
    if (flow.server == no_server) {
        release(flow);
        note_end(flow, Outcome::lost, now_ns_);
        return forget(id);
    }
    frontend.placed(flow);
    frontend.features[flow.server].packets++;
    Server &server = servers_[flow.server];
    flow.epoch = server.epoch;
    server.flows++;
    assigned_[flow.server]++;
    count_demand(flow, 1);
    send(id, Phase::syn_at_server, 1);
}

// A flow that finds no entry follows the hash, as its later packets will.
uint16_t Simulation::place(Frontend &frontend, Flow &flow) {
    if (!flow.tracked && !flow.covert) {
        flow.hashed = frontend.version();
        return frontend.fallback(flow.hash);
    }
    const dcgym_pool_view pool = frontend.pool_view();
    if (pool.n == 0)
        return no_server;
    switch (frontend.rule()) {
    case DCGYM_RULE_GSQ:
        return pool
            .server[dcgym_least_delay(&pool, nullptr, assigned_.data(), 0, frontend.random())];
    case DCGYM_RULE_GSQ2:
        return pool.server[dcgym_least_delay2(&pool, nullptr, assigned_.data(), frontend.random())];
    case DCGYM_RULE_ORACLE:
    case DCGYM_RULE_ORACLE2:
        return oracle(frontend, flow, frontend.rule() == DCGYM_RULE_ORACLE2);
    case DCGYM_RULE_EARLIEST_FINISH:
        return earliest_finish(frontend, flow);
    case DCGYM_RULE_PREQUAL:
    case DCGYM_RULE_JIQ:
    case DCGYM_RULE_PEAK_EWMA:
    case DCGYM_RULE_C3_RANK:
        return informed(frontend, flow);
    default:
        return frontend.choose(flow.hash, now_ns_);
    }
}

// The server that would be done first with all its work and the flow's (Yao et al., appendix C.3).
uint16_t Simulation::oracle(Frontend &frontend, const Flow &flow, bool two) {
    const Demand more = demand(flow);
    const auto cost = [&](uint16_t server) { return servers_[server].remaining_ns(now_ns_, more); };
    const std::vector<uint16_t> &pool = frontend.pool();
    if (two) {
        uint32_t a, b;
        dcgym_two_of(frontend.random(), static_cast<uint32_t>(pool.size()), &a, &b);
        return cost(pool[b]) < cost(pool[a]) ? pool[b] : pool[a];
    }
    return cheapest(frontend, cost);
}

// The server that would be done first with the flow, were its processors served in order of
// arrival, a flow by one worker. (The oracle above takes k workers for one that is k times faster.)
uint16_t Simulation::earliest_finish(Frontend &frontend, const Flow &flow) {
    const Demand own = demand(flow);
    return cheapest(frontend, [&](uint16_t number) {
        const Server &server = servers_[number];
        double sum_ns = worker_free_ns(server) + static_cast<double>(own[0]);
        sum_ns /= server.capacity(0) / server.processors().config.workers;
        for (size_t r = 1; r < server.n_resources; r++)
            sum_ns += static_cast<double>(own[r]) / server.all_resources[r].config.speed;
        return sum_ns;
    });
}

void Simulation::syn_at_server(FlowId id) {
    Flow &flow = flows_[id];
    Server &server = servers_[flow.server];
    if (gone(flow))
        return fail(id);
    if (server.full(config_->backlog)) {
        unplace(flow);
        note_end(flow, Outcome::rejected, now_ns_ + hop_ns(flow));
        if (!flow.tracked)
            return forget(id);
        flow.phase = Phase::entry_timeout;
        return queue_.schedule(owner(id), std::max(now_ns_, flow.syn_ns + config_->syn_timeout_ns));
    }
    server.handshaking++;
    if (!flow.reporting)
        return send(id, Phase::data_at_balancer, 2);
    flow.reported_flows = server.told(server.queue + server.handshaking);
    flow.reported_service_ns = server.mean_service_ns / server.processors().config.workers;
    flow.reported_speed = server.reported_speed();
    send(id, Phase::report_at_balancer, 1);
}

void Simulation::report_at_balancer(FlowId id) {
    Flow &flow = flows_[id];
    if (frontends_[flow.frontend].up)
        frontends_[flow.frontend].report(flow, now_ns_);
    counts_.reports++;
    send(id, Phase::data_at_balancer, 2);
}

uint16_t Simulation::route(Flow &flow) {
    const uint16_t arrived = edge(flow);
    if (arrived != flow.frontend) {
        // No packet passes the old entry any more: it might as well be gone.
        release(flow);
        if (arrived == no_frontend)
            return no_server;
        flow.frontend = arrived;
        flow.hashed = 0;
    }
    const Frontend &frontend = frontends_[flow.frontend];
    if (flow.tracked || flow.covert || flow.hashed == frontend.version())
        return flow.server;
    const uint16_t found = frontend.fallback(flow.hash);
    if (found == flow.server)
        flow.hashed = frontend.version();
    return found;
}

// Whether the client's packet reaches the flow's server. If not, that other server resets the
// connection; if there is no way at all, the flow is lost.
bool Simulation::consistent(FlowId id) {
    Flow &flow = flows_[id];
    const uint16_t reached = route(flow);
    if (reached == flow.server) {
        frontends_[flow.frontend].features[flow.server].packets++;
        return true;
    }
    const bool lost = reached == no_server;
    note_end(flow, lost ? Outcome::lost : Outcome::pcc_violation, now_ns_);
    return false;
}

void Simulation::data_at_balancer(FlowId id) {
    Flow &flow = flows_[id];
    if (gone(flow))
        return fail(id);
    if (!consistent(id)) {
        servers_[flow.server].handshaking--;
        unplace(flow);
        return forget(id);
    }
    if (flow.tracked)
        frontends_[flow.frontend].connected(flow, now_ns_);
    send(id, Phase::data_at_server, 1);
}

void Simulation::data_at_server(FlowId id) {
    Flow &flow = flows_[id];
    if (gone(flow))
        return fail(id);
    const uint16_t server_number = flow.server;
    Server &server = servers_[server_number];
    server.integrate(now_ns_);
    server.handshaking--;
    flow.met = server.queue;
    flow.received_ns = now_ns_;
    server.queue++;
    flow.phase = Phase::at_server;
    if (fails_fast(flow)) {
        refuse(id);
        return settle(server_number);
    }
    next_packet(id);
    begin_stage(id);
    settle(flow.server);
}

void Simulation::next_packet(FlowId id) {
    if (config_->packet_interval_ns == 0)
        return;
    const auto mean_ns = static_cast<double>(config_->packet_interval_ns);
    const int64_t gap_ns = whole_of_log(flows_[id].random.uniform(), [mean_ns](double log) {
        return static_cast<int64_t>(-log * mean_ns);
    });
    queue_.schedule(owner(id), now_ns_ + gap_ns + 1);
}

// A server does not know that a client lost its connection: it works on.
void Simulation::packet_at_balancer(FlowId id) {
    if (!consistent(id))
        return;
    const Flow &flow = flows_[id];
    frontends_[flow.frontend].packet(flow, now_ns_);
    next_packet(id);
}

void Simulation::end_at_balancer(FlowId id) {
    Flow &flow = flows_[id];
    if (consistent(id)) {
        Frontend &frontend = frontends_[flow.frontend];
        frontend.packet(flow, now_ns_);
        note_end(flow, flow.refused ? Outcome::rejected : Outcome::completed, flow.end_ns);
        frontend.ended(flow, now_ns_);
        release(flow);
    }
    forget(id);
}

void Simulation::entry_timeout(FlowId id) {
    Flow &flow = flows_[id];
    frontends_[flow.frontend].timeouts += flow.tracked;
    release(flow);
    forget(id);
}

void Simulation::note_end(Flow &flow, Outcome outcome, int64_t end_ns) {
    flow.reported = true;
    flow.outcome = outcome;
    open_--;
    ask_again(flow, end_ns);
    if (outcome == Outcome::completed) {
        ended_++;
        ended_after_ns_ += end_ns - flow.arrival_ns;
    }
    if (flow.arrival_ns < config_->warm_up_ns)
        return;
    statistics_.outcomes[static_cast<size_t>(outcome)]++;
    if (outcome == Outcome::completed)
        statistics_.completion[flow.application].add(end_ns - flow.arrival_ns);
    if (records_.flows.size() >= config_->record_limit) {
        statistics_.records_dropped += config_->record_limit > 0;
        return;
    }
    add_record(records_, flow, end_ns);
}

void Simulation::add_record(Records &to, const Flow &flow, int64_t end_ns) const {
    const Demand work = demand(flow);
    to.demand_ns.insert(to.demand_ns.end(), work.begin(),
                        work.begin() + static_cast<ptrdiff_t>(config_->resources));
    const uint16_t balancer = flow.frontend == no_frontend
                                  ? no_frontend
                                  : static_cast<uint16_t>(config_->balancer_of(flow.frontend));
    to.flows.push_back({flow.arrival_ns, flow.served_ns, end_ns, flow.number, flow.application,
                        balancer, flow.server, static_cast<uint8_t>(flow.outcome), flow.tracked});
}

bool Simulation::is_under_way(const Flow &flow) const {
    return flow.phase != Phase::free && !flow.reported && flow.arrival_ns >= config_->warm_up_ns;
}

size_t Simulation::in_flight() const {
    size_t count = 0;
    for (FlowId id = 0; id < flows_.size(); id++)
        count += is_under_way(flows_[id]);
    return count;
}

Records Simulation::under_way_records() const {
    Records found;
    for (FlowId id = 0; id < flows_.size(); id++)
        if (is_under_way(flows_[id]))
            add_record(found, flows_[id], now_ns_);
    return found;
}

void Simulation::forget(FlowId id) {
    queue_.cancel(owner(id));
    flows_.give_back(id);
}

// Ends a flow that is on its way to a server which is not there any more.
void Simulation::fail(FlowId id) {
    Flow &flow = flows_[id];
    unplace(flow);
    release(flow);
    note_end(flow, Outcome::lost, now_ns_);
    forget(id);
}

} // namespace dcgym::twin::balancing
