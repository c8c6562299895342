// SPDX-License-Identifier: Apache-2.0
// Flows that wait until somebody outside names their server: one decision a flow.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::balancing {

void Simulation::hold_flows(uint64_t most) {
    holds_ = true;
    begun_ns_ = -1;
    queue_.cancel(change_owner_);
    most_flows_ = most;
}

// What the table cannot track follows the hash, whoever decides (`place`).
bool Simulation::waits(const Flow &flow) const {
    return holds_ && (flow.tracked || flow.covert) && frontends_[flow.frontend].pool_view().n > 0;
}

// One time after the other: a flow that arrives at the time of another one's end meets what that
// end has left.
void Simulation::run_to_choice(int64_t until_ns, Interrupt &call) {
    Interrupt::Events events(call);
    while (held_.empty() && !(source_.has_ended() && open_ == 0)) {
        if (queue_.empty() || queue_.first().time_ns > until_ns)
            return;
        const int64_t time_ns = queue_.first().time_ns;
        flow_time_ns_ += static_cast<int64_t>(open_) * (time_ns - now_ns_);
        queue_.run_until(time_ns, events, [this](const EventQueue::Event &event) {
            now_ns_ = event.time_ns;
            events_++;
            handle(event);
        });
    }
}

void Simulation::assign(uint16_t server, Interrupt &call) {
    Interrupt::Events events(call);
    const FlowId id = held_.front();
    held_.pop_front();
    Flow &flow = flows_[id];
    const std::vector<uint8_t> &members = config_->members[config_->vip_of(flow.frontend)];
    if (server == no_server)
        enter(id, place(frontends_[flow.frontend], flow));
    else
        enter(id, members[server] ? server : no_server);
    // Its way through what takes no time comes before the next decision of this time.
    while (!queue_.empty() && queue_.first().time_ns == now_ns_)
        queue_.run_until(now_ns_, events, [this](const EventQueue::Event &event) {
            events_++;
            handle(event);
        });
}

int64_t Simulation::waiting_ns(size_t server) const {
    int64_t sum_ns = 0;
    for (const ServerResource &resource : servers_[server].resources())
        sum_ns += resource.pending_ns;
    return sum_ns;
}

double Simulation::in_service_ns(size_t server) const {
    const Server &at = servers_[server];
    double sum_ns = 0;
    for (size_t r = 0; at.up && r < at.n_resources; r++)
        sum_ns += at.all_resources[r].jobs.all_left(now_ns_) / at.capacity(r);
    return sum_ns;
}

int64_t Simulation::demand_ns(const Flow &flow) const {
    int64_t sum_ns = 0;
    for (const int64_t part_ns : demand(flow))
        sum_ns += part_ns;
    return sum_ns;
}

} // namespace dcgym::twin::balancing
