// SPDX-License-Identifier: Apache-2.0
#include "observation.hpp"

#include <algorithm>
#include <utility>

namespace dcgym::twin::balancing {

using namespace py::literals;

Observation::Observation(size_t e, size_t b, size_t n, std::vector<uint8_t> wanted)
    : wanted_(std::move(wanted)), balancers_(b), servers_(n), time_({e}), ongoing_({e, b, n}),
      flows_({e, b, n}), completed_({e, b, n}), packets_({e, b, n}), probe_busy_({e, b, n}),
      probe_queue_({e, b, n}), probe_time_({e, b, n}), probe_answered_({e, b, n}),
      probe_errors_({e, b, n}), untracked_({e, b}), duration_({e, b, n, n_reducers}),
      completion_({e, b, n, n_reducers}), interarrival_({e, b, n_reducers}), weights_({e, b, n}),
      eligible_({e, n}), up_({e, b}) {}

void Observation::fill(size_t env, Simulation &simulation) {
    time_.data[env] = simulation.now_ns();
    for (size_t i = 0; i < servers_; i++)
        eligible_.data[env * servers_ + i] = simulation.servers()[i].eligible;
    for (size_t j = 0; j < balancers_; j++) {
        Balancer &balancer = simulation.balancers()[j];
        fill_balancer(env * balancers_ + j, balancer, simulation.now_ns());
        if (!wanted_[j])
            clear_samples(env * balancers_ + j);
        else
            fill_samples(env * balancers_ + j, balancer, simulation.now_ns());
    }
}

void Observation::fill_balancer(size_t row, Balancer &balancer, int64_t now_ns) {
    up_.data[row] = balancer.up;
    untracked_.data[row] = static_cast<int64_t>(balancer.untracked);
    for (size_t i = 0; i < servers_; i++)
        fill_server(row * servers_ + i, static_cast<uint16_t>(i), balancer, now_ns);
}

void Observation::fill_server(size_t at, uint16_t number, Balancer &balancer, int64_t now_ns) {
    ServerFeatures &server = balancer.features[number];
    ongoing_.data[at] = balancer.ongoing()[number];
    flows_.data[at] = static_cast<int64_t>(server.flows);
    completed_.data[at] = static_cast<int64_t>(server.completed);
    packets_.data[at] = static_cast<int64_t>(server.packets);
    weights_.data[at] = balancer.weight(number);
    const Probe &probe = balancer.probe(number, now_ns);
    probe_busy_.data[at] = probe.busy;
    probe_queue_.data[at] = probe.queue;
    probe_time_.data[at] = probe.time_ns;
    probe_answered_.data[at] = probe.answered;
    probe_errors_.data[at] = probe.errors;
}

void Observation::clear_samples(size_t row) {
    std::fill_n(interarrival_.data + row * n_reducers, n_reducers, 0.0);
    std::fill_n(duration_.data + row * servers_ * n_reducers, servers_ * n_reducers, 0.0);
    std::fill_n(completion_.data + row * servers_ * n_reducers, servers_ * n_reducers, 0.0);
}

void Observation::fill_samples(size_t row, Balancer &balancer, int64_t now_ns) {
    balancer.interarrival.read(now_ns, interarrival_.data + row * n_reducers);
    for (size_t i = 0; i < servers_; i++) {
        ServerFeatures &server = balancer.features[i];
        const size_t at = (row * servers_ + i) * n_reducers;
        server.duration.read(now_ns, duration_.data + at);
        server.completion.read(now_ns, completion_.data + at);
    }
}

py::dict Observation::dict() const {
    return py::dict(
        "time_ns"_a = time_.array, "ongoing"_a = ongoing_.array, "flows"_a = flows_.array,
        "completed"_a = completed_.array, "packets"_a = packets_.array,
        "untracked"_a = untracked_.array, "duration_us"_a = duration_.array,
        "completion_us"_a = completion_.array, "interarrival_us"_a = interarrival_.array,
        "eligible"_a = eligible_.array, "balancer_up"_a = up_.array, "weights"_a = weights_.array,
        "probe_busy"_a = probe_busy_.array, "probe_queue"_a = probe_queue_.array,
        "probe_time_ns"_a = probe_time_.array, "probe_answered"_a = probe_answered_.array,
        "probe_errors"_a = probe_errors_.array);
}

Truth::Truth(size_t e, size_t b, size_t n)
    : balancers_(b), servers_(n), queue_({e, n}), assigned_({e, n}), busy_({e, n}), ended_({e}),
      ended_after_({e}), rejected_({e}), violations_({e}), remaining_({e, n}), capacity_({e, n}),
      parts_({e, b, n}) {}

void Truth::fill(size_t env, const Simulation &simulation) {
    ended_.data[env] = simulation.ended();
    ended_after_.data[env] = simulation.ended_after_ns();
    rejected_.data[env] = simulation.statistics().count(Outcome::rejected);
    violations_.data[env] = simulation.statistics().count(Outcome::pcc_violation);
    for (size_t i = 0; i < servers_; i++) {
        const Server &server = simulation.servers()[i];
        const size_t at = env * servers_ + i;
        queue_.data[at] = server.queue;
        assigned_.data[at] = simulation.assigned(i);
        busy_.data[at] = server.busy();
        remaining_.data[at] = simulation.remaining_ns(i);
        capacity_.data[at] = server.up ? server.capacity(0) : 0;
    }
    double *parts = parts_.data + env * balancers_ * servers_;
    std::fill_n(parts, balancers_ * servers_, 0.0);
    simulation.remaining_by_balancer(parts);
}

py::dict Truth::dict() const {
    return py::dict("queue"_a = queue_.array, "assigned"_a = assigned_.array,
                    "busy_workers"_a = busy_.array, "remaining_ns"_a = remaining_.array,
                    "capacity"_a = capacity_.array, "remaining_by_balancer_ns"_a = parts_.array,
                    "ended"_a = ended_.array, "ended_after_ns"_a = ended_after_.array,
                    "rejected"_a = rejected_.array, "pcc_violations"_a = violations_.array);
}

Choices::Choices(size_t e, size_t n)
    : servers_(n), time_({e}), begun_({e}), demand_({e}), flow_time_({e}), under_way_({e}),
      ended_({e}), ended_after_({e}), failed_({e}), assigned_({e, n}), waiting_work_({e, n}),
      in_service_({e, n}), remaining_({e, n}), waits_({e}), eligible_({e, n}) {}

void Choices::fill(size_t env, const Simulation &simulation) {
    const Flow *flow = simulation.waiting();
    time_.data[env] = simulation.now_ns();
    begun_.data[env] = simulation.begun_ns();
    waits_.data[env] = flow != nullptr;
    demand_.data[env] = flow ? simulation.demand_ns(*flow) : 0;
    flow_time_.data[env] = simulation.flow_time_ns();
    under_way_.data[env] = static_cast<int64_t>(simulation.under_way());
    ended_.data[env] = simulation.ended();
    ended_after_.data[env] = simulation.ended_after_ns();
    const Statistics &statistics = simulation.statistics();
    failed_.data[env] = 0;
    for (const Outcome outcome : {Outcome::rejected, Outcome::pcc_violation, Outcome::lost})
        failed_.data[env] += static_cast<int64_t>(statistics.count(outcome));
    for (size_t i = 0; i < servers_; i++) {
        const size_t at = env * servers_ + i;
        assigned_.data[at] = simulation.assigned(i);
        waiting_work_.data[at] = simulation.waiting_ns(i);
        in_service_.data[at] = simulation.in_service_ns(i);
        remaining_.data[at] = simulation.remaining_ns(i);
        eligible_.data[at] = simulation.servers()[i].eligible;
    }
}

py::dict Choices::dict() const {
    return py::dict("time_ns"_a = time_.array, "begun_ns"_a = begun_.array,
                    "waits"_a = waits_.array, "demand_ns"_a = demand_.array,
                    "flow_time_ns"_a = flow_time_.array, "under_way"_a = under_way_.array,
                    "ended"_a = ended_.array, "ended_after_ns"_a = ended_after_.array,
                    "failed"_a = failed_.array, "assigned"_a = assigned_.array,
                    "waiting_ns"_a = waiting_work_.array, "in_service_ns"_a = in_service_.array,
                    "remaining_ns"_a = remaining_.array, "eligible"_a = eligible_.array);
}

} // namespace dcgym::twin::balancing
