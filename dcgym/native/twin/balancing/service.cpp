// SPDX-License-Identifier: Apache-2.0
// What happens to flows at servers, and the account of the work that is left there.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::balancing {

void Simulation::begin_stage(FlowId id) {
    const Flow &flow = flows_[id];
    Server &server = servers_[flow.server];
    const Resource resource = config_->applications[flow.application].stages[flow.stage].resource;
    // Behind those who wait, even where a slot has just come free: it is theirs.
    if (resource == Resource::cpu &&
        (server.waiting > 0 || server.cpu.size() >= server.config->slots))
        server.enqueue(flows_, id);
    else
        begin_service(id, resource);
}

void Simulation::begin_service(FlowId id, Resource resource) {
    Flow &flow = flows_[id];
    Server &server = servers_[flow.server];
    const int64_t demand_ns = flow.demand_ns[flow.stage];
    const bool on_cpu = resource == Resource::cpu;
    (on_cpu ? server.cpu_pending_ns : server.io_pending_ns) -= demand_ns;
    flow.finish = (on_cpu ? server.cpu : server.io).add(now_ns_, demand_ns, flow.number, id);
    if (flow.served_ns < 0)
        flow.served_ns = now_ns_;
}

void Simulation::end_stage(size_t number, Resource resource) {
    Server &server = servers_[number];
    server.integrate(now_ns_);
    const FlowId id = (resource == Resource::cpu ? server.cpu : server.io).finish_first(now_ns_);
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
    while (server.waiting > 0 && server.cpu.size() < server.config->slots)
        begin_service(server.dequeue(flows_), Resource::cpu);
    server.update_rates(now_ns_);
    retime(cpu_owner(number), server.cpu);
    retime(io_owner(number), server.io);
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
    Flow &flow = flows_[id];
    Server &server = servers_[flow.server];
    assigned_[flow.server]--;
    server.completed++;
    server.note_service(now_ns_ - flow.served_ns);
    if (flow.reported)
        return forget(id);
    flow.end_ns = now_ns_ + hop_ns(flow);
    flow.phase = Phase::end_at_balancer;
    queue_.schedule(owner(id), flow.end_ns + hop_ns(flow));
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
        (stages[i].resource == Resource::cpu ? server.cpu_pending_ns : server.io_pending_ns) +=
            sign * flow.demand_ns[i];
}

Simulation::Demand Simulation::demand(const Flow &flow) const {
    Demand sum{0, 0};
    const std::vector<StageConfig> &stages = config_->applications[flow.application].stages;
    for (size_t i = 0; i < stages.size(); i++)
        (stages[i].resource == Resource::cpu ? sum.cpu_ns : sum.io_ns) += flow.demand_ns[i];
    return sum;
}

double Simulation::left_ns(const Flow &flow) const {
    const Server &server = servers_[flow.server];
    const std::vector<StageConfig> &stages = config_->applications[flow.application].stages;
    double sum_ns = 0;
    for (size_t i = flow.stage; i < stages.size(); i++) {
        const bool on_cpu = stages[i].resource == Resource::cpu;
        auto work_ns = static_cast<double>(flow.demand_ns[i]);
        if (i == flow.stage && flow.finish >= 0)
            work_ns = (on_cpu ? server.cpu : server.io).left(now_ns_, flow.finish);
        sum_ns += work_ns / (on_cpu ? server.capacity() : server.config->io_speed);
    }
    return sum_ns;
}

void Simulation::remaining_by_balancer(double *out) const {
    for (FlowId id = 0; id < flows_.size(); id++) {
        const Flow &flow = flows_[id];
        if (flow.phase >= Phase::syn_at_server && flow.phase <= Phase::at_server && !gone(flow))
            out[flow.balancer * servers_.size() + flow.server] += left_ns(flow);
    }
}

} // namespace dcgym::twin::balancing
