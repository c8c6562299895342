// SPDX-License-Identifier: Apache-2.0
#include "flow_source.hpp"

#include <algorithm>

#include "quick_log.hpp"

namespace dcgym::twin {

FlowSource::FlowSource(const FlowWorkload &workload, uint64_t seed,
                       EventQueue::Owner modulation_owner, EventQueue::Owner first_user)
    : workload_(&workload), seed_(seed), modulation_owner_(modulation_owner),
      first_user_(first_user), rate_factor_(workload.applications.size(), 1.0) {
    begin_correlations();
}

void FlowSource::begin_correlations() {
    bool correlated = false;
    for (const FlowApplication &application : workload_->applications)
        for (const StageConfig &stage : application.stages)
            correlated |= stage.correlation.share > 0;
    for (size_t app = 0; correlated && app < workload_->applications.size(); app++)
        for (size_t i = 0; i < max_stages; i++) {
            const std::vector<StageConfig> &stages = workload_->applications[app].stages;
            correlations_.emplace_back(i < stages.size() ? stages[i].correlation
                                                         : CorrelationConfig(),
                                       stream_seed(seed_, service_stream, app * max_stages + i));
        }
}

void FlowSource::begin(EventQueue &queue) {
    const ArrivalsConfig &arrivals = workload_->arrivals;
    if (arrivals.users > 0) {
        for (uint32_t user = 0; user < arrivals.users; user++) {
            users_.emplace_back(stream_seed(seed_, user_stream, user));
            queue.schedule(user_owner(user), arrivals.think.sample(users_[user]));
        }
    } else if (arrivals.plain) {
        for (size_t app = 0; app < workload_->applications.size(); app++) {
            arrivals_.emplace_back(stream_seed(seed_, arrival_stream, app));
            queue.schedule(arrival_owner(app), gap_ns(app));
        }
    } else {
        process_ = ArrivalProcess(arrivals, stream_seed(seed_, process_stream, 0), rate_per_ns());
        queue.schedule(modulation_owner_, process_.change_ns());
        plan_arrival(queue);
    }
}

// Exponential gaps: Poisson arrivals.
int64_t FlowSource::gap_ns(size_t app) {
    const double rate_per_ns =
        workload_->applications[app].rate_per_s * rate_factor_[app] / ns_per_s;
    return whole_of_log(arrivals_[app].uniform(), [rate_per_ns](double log) {
        return static_cast<int64_t>(std::min(-log / rate_per_ns + 0.5, 0x1p60));
    });
}

double FlowSource::rate_per_ns() const {
    double sum = 0;
    for (size_t app = 0; app < workload_->applications.size(); app++)
        sum += workload_->applications[app].rate_per_s * rate_factor_[app] / ns_per_s;
    return sum;
}

size_t FlowSource::pick(double u) const {
    double left = u * rate_per_ns();
    size_t app = 0;
    for (; app + 1 < workload_->applications.size(); app++) {
        left -= workload_->applications[app].rate_per_s * rate_factor_[app] / ns_per_s;
        if (left < 0)
            break;
    }
    return app;
}

size_t FlowSource::come(EventQueue::Owner owner, int64_t now_ns, EventQueue &queue) {
    if (workload_->arrivals.plain) {
        queue.schedule(owner, now_ns + gap_ns(owner));
        return owner;
    }
    const size_t place = process_.arrived(now_ns);
    plan_arrival(queue);
    const std::vector<uint16_t> &recorded = workload_->arrivals.applications;
    return recorded.empty() ? pick(process_.choose()) : recorded[place];
}

void FlowSource::plan_arrival(EventQueue &queue) {
    if (!has_ended_)
        queue.schedule(arrival_owner(0), process_.next_ns());
}

void FlowSource::modulate(EventQueue &queue) {
    process_.change();
    queue.schedule(modulation_owner_, process_.change_ns());
    plan_arrival(queue);
}

// What the flow asks for comes from its own stream: nothing that happens to it or others matters.
DrawnFlow FlowSource::draw(size_t app, int64_t now_ns) {
    DrawnFlow flow{};
    flow.number = drawn_++;
    flow.random = Splitmix(stream_seed(seed_, flow_stream, flow.number));
    flow.hash = flow.random.next();
    flow.arrival_ns = now_ns;
    flow.application = static_cast<uint16_t>(app);
    const std::vector<StageConfig> &stages = workload_->applications[app].stages;
    for (size_t i = 0; i < stages.size(); i++) {
        double u = flow.random.uniform();
        if (stages[i].correlation.share > 0)
            u = correlations_[app * max_stages + i].shifted(now_ns, u);
        flow.demand_ns[i] = stages[i].time.sample_at(u);
    }
    return flow;
}

void FlowSource::ask_again(uint32_t user, int64_t end_ns, EventQueue &queue) {
    if (!has_ended_)
        queue.schedule(user_owner(user), end_ns + workload_->arrivals.think.sample(users_[user]));
}

void FlowSource::stop(EventQueue &queue) {
    has_ended_ = true;
    for (size_t app = 0; app < workload_->applications.size(); app++)
        queue.cancel(arrival_owner(app));
    queue.cancel(modulation_owner_);
    for (uint32_t user = 0; user < workload_->arrivals.users; user++)
        queue.cancel(user_owner(user));
}

// The gap under way shrinks as the rate grows: a Poisson process stretched in time is one.
void FlowSource::change_rate(uint32_t app, double factor, int64_t now_ns, EventQueue &queue) {
    if (!workload_->arrivals.plain) {
        rate_factor_[app] = factor;
        process_.set_rate(now_ns, rate_per_ns());
        return plan_arrival(queue);
    }
    if (has_ended_)
        return;
    const auto left_ns = static_cast<double>(queue.time_of(arrival_owner(app)) - now_ns);
    const double stretched = std::min(left_ns * rate_factor_[app] / factor + 0.5, 0x1p60);
    rate_factor_[app] = factor;
    queue.schedule(arrival_owner(app), now_ns + static_cast<int64_t>(stretched));
}

} // namespace dcgym::twin
