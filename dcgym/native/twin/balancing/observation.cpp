// SPDX-License-Identifier: Apache-2.0
#include "observation.hpp"

#include <algorithm>
#include <utility>

namespace dcgym::twin::balancing {

View::View(size_t e, size_t b, size_t n, std::vector<uint8_t> sampled)
    : sampled_(std::move(sampled)), frontends_(b), servers_(n), ongoing_({e, b, n}),
      flows_({e, b, n}), completed_({e, b, n}), packets_({e, b, n}), probe_busy_({e, b, n}),
      probe_queue_({e, b, n}), probe_time_({e, b, n}), probe_answered_({e, b, n}),
      probe_errors_({e, b, n}), untracked_({e, b}), duration_({e, b, n, n_reducers}),
      completion_({e, b, n, n_reducers}), interarrival_({e, b, n_reducers}), weights_({e, b, n}),
      eligible_({e, b, n}), up_({e, b}) {}

void View::fill(size_t env, Simulation &simulation) {
    for (size_t j = 0; j < frontends_; j++) {
        Frontend &frontend = simulation.frontends()[j];
        fill_frontend(env * frontends_ + j, frontend, simulation.now_ns());
        if (!sampled_[j])
            clear_samples(env * frontends_ + j);
        else
            fill_samples(env * frontends_ + j, frontend, simulation.now_ns());
    }
}

void View::fill_frontend(size_t row, Frontend &frontend, int64_t now_ns) {
    up_.data[row] = frontend.up;
    untracked_.data[row] = static_cast<int64_t>(frontend.untracked);
    for (size_t i = 0; i < servers_; i++)
        fill_server(row * servers_ + i, static_cast<uint16_t>(i), frontend, now_ns);
}

void View::fill_server(size_t at, uint16_t number, Frontend &frontend, int64_t now_ns) {
    ServerFeatures &server = frontend.features[number];
    ongoing_.data[at] = frontend.ongoing()[number];
    flows_.data[at] = static_cast<int64_t>(server.flows);
    completed_.data[at] = static_cast<int64_t>(server.completed);
    packets_.data[at] = static_cast<int64_t>(server.packets);
    eligible_.data[at] = frontend.has(number);
    weights_.data[at] = frontend.weight(number);
    const Probe &probe = frontend.probe(number, now_ns);
    probe_busy_.data[at] = probe.busy;
    probe_queue_.data[at] = probe.queue;
    probe_time_.data[at] = probe.time_ns;
    probe_answered_.data[at] = probe.answered;
    probe_errors_.data[at] = probe.errors;
}

void View::clear_samples(size_t row) {
    std::fill_n(interarrival_.data + row * n_reducers, n_reducers, 0.0);
    std::fill_n(duration_.data + row * servers_ * n_reducers, servers_ * n_reducers, 0.0);
    std::fill_n(completion_.data + row * servers_ * n_reducers, servers_ * n_reducers, 0.0);
}

void View::fill_samples(size_t row, Frontend &frontend, int64_t now_ns) {
    frontend.interarrival.read(now_ns, interarrival_.data + row * n_reducers);
    for (size_t i = 0; i < servers_; i++) {
        ServerFeatures &server = frontend.features[i];
        const size_t at = (row * servers_ + i) * n_reducers;
        server.duration.read(now_ns, duration_.data + at);
        server.completion.read(now_ns, completion_.data + at);
    }
}

py::dict View::dict() const {
    return dict_of({{key<"ongoing">(), ongoing_.array},
                    {key<"flows">(), flows_.array},
                    {key<"completed">(), completed_.array},
                    {key<"packets">(), packets_.array},
                    {key<"untracked">(), untracked_.array},
                    {key<"duration_us">(), duration_.array},
                    {key<"completion_us">(), completion_.array},
                    {key<"interarrival_us">(), interarrival_.array},
                    {key<"eligible">(), eligible_.array},
                    {key<"balancer_up">(), up_.array},
                    {key<"weights">(), weights_.array},
                    {key<"probe_busy">(), probe_busy_.array},
                    {key<"probe_queue">(), probe_queue_.array},
                    {key<"probe_time_ns">(), probe_time_.array},
                    {key<"probe_answered">(), probe_answered_.array},
                    {key<"probe_errors">(), probe_errors_.array}});
}

Truth::Truth(size_t e, size_t b, size_t n)
    : frontends_(b), servers_(n), queue_({e, n}), assigned_({e, n}), busy_({e, n}), ended_({e}),
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
    double *parts = parts_.data + env * frontends_ * servers_;
    std::fill_n(parts, frontends_ * servers_, 0.0);
    simulation.remaining_by_balancer(parts);
}

py::dict Truth::dict() const {
    return dict_of({{key<"queue">(), queue_.array},
                    {key<"assigned">(), assigned_.array},
                    {key<"busy_workers">(), busy_.array},
                    {key<"remaining_ns">(), remaining_.array},
                    {key<"capacity">(), capacity_.array},
                    {key<"remaining_by_balancer_ns">(), parts_.array},
                    {key<"ended">(), ended_.array},
                    {key<"ended_after_ns">(), ended_after_.array},
                    {key<"rejected">(), rejected_.array},
                    {key<"pcc_violations">(), violations_.array}});
}

Held::Held(size_t e, size_t n)
    : servers_(n), begun_({e}), demand_({e}), flow_time_({e}), under_way_({e}), failed_({e}),
      waiting_work_({e, n}), in_service_({e, n}), waits_({e}) {}

void Held::fill(size_t env, const Simulation &simulation) {
    const Flow *flow = simulation.waiting();
    begun_.data[env] = simulation.begun_ns();
    waits_.data[env] = flow != nullptr;
    demand_.data[env] = flow ? simulation.demand_ns(*flow) : 0;
    flow_time_.data[env] = simulation.flow_time_ns();
    under_way_.data[env] = static_cast<int64_t>(simulation.under_way());
    const Statistics &statistics = simulation.statistics();
    failed_.data[env] = 0;
    for (const Outcome outcome : {Outcome::rejected, Outcome::pcc_violation, Outcome::lost})
        failed_.data[env] += static_cast<int64_t>(statistics.count(outcome));
    for (size_t i = 0; i < servers_; i++) {
        waiting_work_.data[env * servers_ + i] = simulation.waiting_ns(i);
        in_service_.data[env * servers_ + i] = simulation.in_service_ns(i);
    }
}

py::dict Held::dict() const {
    return dict_of({{key<"begun_ns">(), begun_.array},
                    {key<"waits">(), waits_.array},
                    {key<"demand_ns">(), demand_.array},
                    {key<"flow_time_ns">(), flow_time_.array},
                    {key<"under_way">(), under_way_.array},
                    {key<"failed">(), failed_.array},
                    {key<"waiting_ns">(), waiting_work_.array},
                    {key<"in_service_ns">(), in_service_.array}});
}

} // namespace dcgym::twin::balancing
