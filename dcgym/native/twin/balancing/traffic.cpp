// SPDX-License-Identifier: Apache-2.0
// Which flows arrive, when, and what they ask for.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::balancing {
namespace {

constexpr double ns_per_s = 1e9;

} // namespace

void Simulation::begin_arrivals() {
    const size_t n = config_->applications.size();
    rate_factor_.assign(n, 1.0);
    arrivals_.clear();
    users_.clear();
    correlations_.clear();
    bool correlated = false;
    for (const ApplicationConfig &application : config_->applications)
        for (const StageConfig &stage : application.stages)
            correlated |= stage.correlation.share > 0;
    for (size_t app = 0; correlated && app < n; app++)
        for (size_t i = 0; i < max_stages; i++) {
            const std::vector<StageConfig> &stages = config_->applications[app].stages;
            correlations_.emplace_back(i < stages.size() ? stages[i].correlation
                                                         : CorrelationConfig(),
                                       stream_seed(seed_, service_stream, app * max_stages + i));
        }
    if (config_->arrivals.users > 0) {
        for (uint32_t user = 0; user < config_->arrivals.users; user++) {
            users_.emplace_back(stream_seed(seed_, user_stream, user));
            queue_.schedule(user_owner(user), config_->arrivals.think.sample(users_[user]));
        }
    } else if (config_->arrivals.plain) {
        for (size_t app = 0; app < n; app++) {
            arrivals_.emplace_back(stream_seed(seed_, arrival_stream, app));
            queue_.schedule(arrival_owner(app), gap_ns(app));
        }
    } else {
        process_ =
            ArrivalProcess(config_->arrivals, stream_seed(seed_, process_stream, 0), rate_per_ns());
        queue_.schedule(modulation_owner_, process_.change_ns());
        plan_arrival();
    }
}

// Exponential gaps: Poisson arrivals.
int64_t Simulation::gap_ns(size_t app) {
    const double rate_per_ns = config_->applications[app].rate_per_s * rate_factor_[app] / ns_per_s;
    return whole_of_log(arrivals_[app].uniform(), [rate_per_ns](double log) {
        return static_cast<int64_t>(std::min(-log / rate_per_ns + 0.5, 0x1p60));
    });
}

double Simulation::rate_per_ns() const {
    double sum = 0;
    for (size_t app = 0; app < config_->applications.size(); app++)
        sum += config_->applications[app].rate_per_s * rate_factor_[app] / ns_per_s;
    return sum;
}

size_t Simulation::pick(double u) const {
    double left = u * rate_per_ns();
    size_t app = 0;
    for (; app + 1 < config_->applications.size(); app++) {
        left -= config_->applications[app].rate_per_s * rate_factor_[app] / ns_per_s;
        if (left < 0)
            break;
    }
    return app;
}

size_t Simulation::come(size_t app) {
    if (config_->arrivals.plain) {
        queue_.schedule(arrival_owner(app), now_ns_ + gap_ns(app));
        return app;
    }
    const size_t place = process_.arrived(now_ns_);
    plan_arrival();
    const std::vector<uint16_t> &recorded = config_->arrivals.applications;
    return recorded.empty() ? pick(process_.choose()) : recorded[place];
}

void Simulation::plan_arrival() {
    if (!arrivals_end_)
        queue_.schedule(arrival_owner(0), process_.next_ns());
}

void Simulation::modulate() {
    process_.change();
    queue_.schedule(modulation_owner_, process_.change_ns());
    plan_arrival();
}

// What the flow asks for comes from its own stream: nothing that happens to it or others matters.
Flow Simulation::draw(size_t app) {
    Flow flow{};
    flow.number = flow_number_++;
    flow.random = Splitmix(stream_seed(seed_, flow_stream, flow.number));
    flow.hash = flow.random.next();
    flow.arrival_ns = now_ns_;
    flow.application = static_cast<uint16_t>(app);
    flow.user = no_user;
    const std::vector<StageConfig> &stages = config_->applications[app].stages;
    for (size_t i = 0; i < stages.size(); i++) {
        double u = flow.random.uniform();
        if (stages[i].correlation.share > 0)
            u = correlations_[app * max_stages + i].shifted(now_ns_, u);
        flow.demand_ns[i] = stages[i].time.sample_at(u);
    }
    return flow;
}

void Simulation::arrive(size_t app, uint32_t user) {
    const FlowId id = flows_.take();
    if (owner(id) >= EventQueue::max_owners)
        throw Refusal("over 16 million flows in flight: the servers are overloaded");
    queue_.reserve(owner(id) + 1);
    Flow &flow = flows_[id];
    flow = draw(app);
    flow.user = user;
    flow.served_ns = flow.end_ns = -1;
    flow.finish = -1;
    flow.server = no_server;
    flow.balancer = no_balancer;
    flow.outcome = Outcome::under_way;
    open_++;
    if (flow_number_ == most_flows_)
        stop_arrivals();
    if (now_ns_ >= config_->warm_up_ns)
        statistics_.arrivals++;
    send(id, Phase::syn_at_balancer, 1);
}

// The user whose flow has come to its end thinks, and sends the next.
void Simulation::ask_again(Flow &flow, int64_t end_ns) {
    if (flow.user == no_user)
        return;
    const uint32_t user = flow.user;
    flow.user = no_user;
    if (!arrivals_end_)
        queue_.schedule(user_owner(user), end_ns + config_->arrivals.think.sample(users_[user]));
}

void Simulation::stop_arrivals() {
    arrivals_end_ = true;
    for (size_t app = 0; app < config_->applications.size(); app++)
        queue_.cancel(arrival_owner(app));
    queue_.cancel(modulation_owner_);
    for (uint32_t user = 0; user < config_->arrivals.users; user++)
        queue_.cancel(user_owner(user));
}

std::vector<Arrival> Simulation::arrivals(uint64_t seed, int64_t until_ns, Interrupt &call) {
    Interrupt::Events events(call);
    reset(seed);
    std::vector<Arrival> found;
    queue_.run_until(until_ns, events, [&](const EventQueue::Event &event) {
        now_ns_ = event.time_ns;
        if (event.owner() < first_resource_) {
            const Flow flow = draw(come(event.owner()));
            found.push_back({flow.arrival_ns, flow.number, flow.demand_ns, flow.application});
        } else if (event.owner() == modulation_owner_) {
            modulate();
        } else if (event.owner() == change_owner_) {
            apply(config_->changes[next_change_++]); // rates may change
        }
    });
    return found;
}

// The gap under way shrinks as the rate grows: a Poisson process stretched in time is one.
void Simulation::change_rate(uint32_t app, double factor) {
    if (!config_->arrivals.plain) {
        rate_factor_[app] = factor;
        process_.set_rate(now_ns_, rate_per_ns());
        return plan_arrival();
    }
    if (arrivals_end_)
        return;
    const auto left_ns = static_cast<double>(queue_.time_of(arrival_owner(app)) - now_ns_);
    const double stretched = std::min(left_ns * rate_factor_[app] / factor + 0.5, 0x1p60);
    rate_factor_[app] = factor;
    queue_.schedule(arrival_owner(app), now_ns_ + static_cast<int64_t>(stretched));
}

} // namespace dcgym::twin::balancing
