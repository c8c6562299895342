// SPDX-License-Identifier: Apache-2.0
// What happens to flows at servers, and the account of the work that is left there.
#include <algorithm>
#include <functional>

#include "simulation.hpp"

namespace dcgym::twin::balancing {

void Simulation::begin_stage(FlowId id) {
    const Flow &flow = flows_[id];
    const size_t number = config_->applications[flow.application].stages[flow.stage].resource;
    ServerResource &resource = servers_[flow.server].all_resources[number];
    // The first resource has its own limit, the backlog, which the SYN has passed.
    if (number > 0 && resource.full())
        return refuse(id);
    // Behind those who wait, even where a slot has just come free: it is theirs.
    if (resource.waiting > 0 || !resource.has_slot())
        resource.enqueue(flows_, id);
    else
        begin_service(id, resource);
}

void Simulation::begin_service(FlowId id, ServerResource &resource) {
    Flow &flow = flows_[id];
    const int64_t demand_ns = flow.demand_ns[flow.stage];
    resource.pending_ns -= demand_ns;
    flow.finish = resource.jobs.add(now_ns_, demand_ns, flow.number, id);
    if (flow.served_ns < 0)
        flow.served_ns = now_ns_;
}

void Simulation::end_stage(size_t number, size_t resource) {
    Server &server = servers_[number];
    server.integrate(now_ns_);
    const FlowId id = server.all_resources[resource].jobs.finish_first(now_ns_);
    Flow &flow = flows_[id];
    flow.finish = -1;
    if (++flow.stage < config_->applications[flow.application].stages.size())
        begin_stage(id);
    else
        leave_server(id);
    settle(number);
}

void Simulation::settle(size_t number) {
    Server &server = servers_[number];
    server.integrate(now_ns_);
    for (ServerResource &resource : server.resources())
        while (resource.waiting > 0 && resource.has_slot())
            begin_service(resource.dequeue(flows_), resource);
    server.update_rates(now_ns_);
    for (size_t r = 0; r < server.n_resources; r++)
        retime(resource_owner(number, r), server.all_resources[r].jobs);
}

void Simulation::retime(EventQueue::Owner owner, const SharedResource &resource) {
    if (resource.size() == 0)
        return queue_.cancel(owner);
    const int64_t end_ns = std::max(now_ns_, resource.first_end_ns());
    if (!queue_.scheduled(owner) || queue_.time_of(owner) != end_ns)
        queue_.schedule(owner, end_ns);
}

// The response goes to the client; the client's last packet goes to the balancer.
void Simulation::leave_server(FlowId id) {
    const Flow &flow = flows_[id];
    Server &server = servers_[flow.server];
    server.completed++;
    server.note_service(now_ns_ - flow.served_ns);
    answer(id);
}

// The flow has done some of its stages perhaps; an error goes the way of a response.
void Simulation::refuse(FlowId id) {
    Flow &flow = flows_[id];
    const std::vector<StageConfig> &stages = config_->applications[flow.application].stages;
    for (size_t i = flow.stage; i < stages.size(); i++)
        servers_[flow.server].all_resources[stages[i].resource].pending_ns -= flow.demand_ns[i];
    flow.refused = true;
    answer(id);
}

void Simulation::answer(FlowId id) {
    Flow &flow = flows_[id];
    Server &server = servers_[flow.server];
    assigned_[flow.server]--;
    server.queue--;
    server.answered++;
    server.errors += flow.refused;
    server.latencies.add(flow.met, now_ns_ - flow.received_ns);
    register_idle(flow.server);
    if (flow.reported)
        return forget(id);
    flow.end_ns = now_ns_ + hop_ns(flow);
    flow.phase = Phase::end_at_balancer;
    queue_.schedule(owner(id), flow.end_ns + hop_ns(flow));
    ask_again(flow, flow.end_ns);
}

bool Simulation::gone(const Flow &flow) const {
    return !servers_[flow.server].up || servers_[flow.server].epoch != flow.epoch;
}

void Simulation::unplace(const Flow &flow) {
    assigned_[flow.server]--;
    if (!gone(flow))
        count_demand(flow, -1);
}

void Simulation::count_demand(const Flow &flow, int sign) {
    Server &server = servers_[flow.server];
    const std::vector<StageConfig> &stages = config_->applications[flow.application].stages;
    for (size_t i = 0; i < stages.size(); i++)
        server.all_resources[stages[i].resource].pending_ns += sign * flow.demand_ns[i];
}

Demand Simulation::demand(const Flow &flow) const {
    Demand sum_ns{};
    const std::vector<StageConfig> &stages = config_->applications[flow.application].stages;
    for (size_t i = 0; i < stages.size(); i++)
        sum_ns[stages[i].resource] += flow.demand_ns[i];
    return sum_ns;
}

double Simulation::left_ns(const Flow &flow) const {
    const Server &server = servers_[flow.server];
    const std::vector<StageConfig> &stages = config_->applications[flow.application].stages;
    double sum_ns = 0;
    for (size_t i = flow.stage; i < stages.size(); i++) {
        auto work_ns = static_cast<double>(flow.demand_ns[i]);
        if (i == flow.stage && flow.finish >= 0)
            work_ns = server.all_resources[stages[i].resource].jobs.left(now_ns_, flow.finish);
        sum_ns += work_ns / server.capacity(stages[i].resource);
    }
    return sum_ns;
}

double Simulation::worker_free_ns(const Server &server) {
    const ServerResource &processors = server.processors();
    double waiting_ns = 0;
    scratch_.clear();
    processors.jobs.append_left(now_ns_, scratch_);
    std::sort(scratch_.begin(), scratch_.end());
    FlowId id = processors.first_waiting;
    for (uint32_t i = 0; i < processors.waiting; i++, id = flows_[id].next) {
        const Flow &flow = flows_[id];
        scratch_.push_back(static_cast<double>(flow.demand_ns[flow.stage]));
        waiting_ns += scratch_.back();
    }
    // What is on its way, or comes back from another resource, counts as one flow behind them.
    const double others_ns = static_cast<double>(processors.pending_ns) - waiting_ns;
    if (others_ns > 0)
        scratch_.push_back(others_ns);
    std::vector<double> free(processors.config.workers, 0.0); // a heap, the first one on top
    for (const double left_ns : scratch_) {
        std::pop_heap(free.begin(), free.end(), std::greater<>());
        free.back() += left_ns;
        std::push_heap(free.begin(), free.end(), std::greater<>());
    }
    return free.front();
}

void Simulation::remaining_by_balancer(double *out) const {
    for (FlowId id = 0; id < flows_.size(); id++) {
        const Flow &flow = flows_[id];
        if (flow.phase >= Phase::syn_at_server && flow.phase <= Phase::at_server && !gone(flow))
            out[flow.frontend * servers_.size() + flow.server] += left_ns(flow);
    }
}

} // namespace dcgym::twin::balancing
