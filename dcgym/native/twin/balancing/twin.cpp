// SPDX-License-Identifier: Apache-2.0
#include "twin.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "observation.hpp"
#include "python_signals.hpp"
#include "read_config.hpp"

namespace dcgym::twin::balancing {
namespace {

py::list list_of(const std::vector<ServerTotals> &servers,
                 const std::function<double(const ServerTotals &)> &value) {
    py::list list;
    for (const ServerTotals &server : servers)
        list.append(value(server));
    return list;
}

py::dict completion_dict(const CompletionTimes &times) {
    constexpr double ns_per_us = 1000;
    const auto n = static_cast<double>(std::max<uint64_t>(times.count, 1));
    const double mean = static_cast<double>(times.sum_ns) / n;
    const double variance = std::max(0.0, times.squares / n - mean * mean);
    py::dict found;
    found["count"] = times.count;
    found["mean_us"] = mean / ns_per_us;
    found["std_us"] = std::sqrt(variance) / ns_per_us;
    constexpr std::pair<const char *, double> percentiles[] = {
        {"p50_us", 0.5}, {"p90_us", 0.9}, {"p95_us", 0.95}, {"p99_us", 0.99}};
    for (const auto &[name, fraction] : percentiles)
        found[name] = times.histogram.quantile(fraction, times.count) / ns_per_us;
    return found;
}

py::dict message_dict(const MessageCounts &counts) {
    using namespace py::literals;
    return py::dict("probes"_a = counts.probes, "idle"_a = counts.idle,
                    "reports"_a = counts.reports, "answers"_a = counts.answers,
                    "late"_a = counts.late, "repeated"_a = counts.repeated, "lost"_a = counts.lost,
                    "unanswered"_a = counts.unanswered, "polls"_a = counts.polls);
}

// A record with the demand on each resource behind its times.
py::dtype record_type(size_t resources) {
    static_assert(sizeof(Record) == 40, "no padding: what follows lists every byte");
    py::list fields;
    for (const char *name : {"arrival_ns", "served_ns", "end_ns"})
        fields.append(py::make_tuple(name, "<i8"));
    fields.append(py::make_tuple("demand_ns", "<i8", py::make_tuple(resources)));
    fields.append(py::make_tuple("flow", "<u8"));
    for (const char *name : {"application", "balancer", "server"})
        fields.append(py::make_tuple(name, "<u2"));
    for (const char *name : {"outcome", "tracked"})
        fields.append(py::make_tuple(name, "u1"));
    return py::dtype::from_args(fields);
}

} // namespace

Twin::Twin(const py::dict &config, size_t n_envs, size_t threads, size_t record_limit,
           int64_t warm_up_ns)
    : config_(read_config(config, record_limit, warm_up_ns)), workers_(std::min(threads, n_envs)),
      balancers_(config_->balancers), servers_(config_->servers.size()) {
    if (servers_ > DCGYM_RULE_SERVERS)
        throw py::value_error("servers: at most " + std::to_string(DCGYM_RULE_SERVERS));
    for (size_t env = 0; env < n_envs; env++)
        simulations_.emplace_back(config_);
}

void Twin::for_each(const std::function<void(size_t, Interrupt &)> &work) {
    const py::gil_scoped_release released;
    workers_.for_each(simulations_.size(), ask_python, work);
}

template <typename Work> void Twin::each_balancer(int balancer, const Mask &mask, Work &&change) {
    check_begun();
    const size_t first = balancer < 0 ? 0 : static_cast<size_t>(balancer);
    const size_t end = balancer < 0 ? balancers_ : first + 1;
    for (size_t env = 0; env < simulations_.size(); env++)
        for (size_t b = first; mask.data()[env] && b < end; b++)
            change(env, b, simulations_[env].balancers()[b]);
}

void Twin::check_begun() const {
    for (const Simulation &simulation : simulations_)
        if (!simulation.begun())
            throw Refusal("reset() must come first, for every environment");
}

void Twin::reset(const py::array_t<uint64_t, py::array::c_style> &seeds, const Mask &mask) {
    for_each([&, chosen = mask.data(), seed = seeds.data()](size_t env, Interrupt &) {
        if (chosen[env])
            simulations_[env].reset(seed[env]);
    });
}

void Twin::set_rule(uint32_t rule, int balancer, const Mask &mask) {
    each_balancer(balancer, mask, [&](size_t, size_t, Balancer &b) { b.set_rule(rule); });
}

void Twin::set_weights(const Doubles &weights, int balancer, const Mask &mask) {
    each_balancer(balancer, mask, [&](size_t env, size_t number, Balancer &b) {
        const size_t row = balancer < 0 ? env * balancers_ + number : env;
        b.set_weights(weights.data() + row * servers_);
    });
}

void Twin::advance(const Integers &until_ns) {
    check_begun();
    for_each([&, until = until_ns.data()](size_t env, Interrupt &call) {
        simulations_[env].advance(until[env], call);
    });
}

void Twin::drain(const Integers &until_ns, const Mask &mask) {
    check_begun();
    for_each([&, chosen = mask.data(), until = until_ns.data()](size_t env, Interrupt &call) {
        if (chosen[env])
            simulations_[env].drain(until[env], call);
    });
}

void Twin::hold_flows(uint64_t most, const Mask &mask) {
    check_begun();
    for (size_t env = 0; env < simulations_.size(); env++)
        if (mask.data()[env])
            simulations_[env].hold_flows(most);
}

void Twin::assign(const Servers &servers, int64_t longest_ns, const Mask &mask) {
    check_begun();
    for_each([&, chosen = mask.data(), server = servers.data()](size_t env, Interrupt &call) {
        Simulation &simulation = simulations_[env];
        if (!chosen[env])
            return;
        if (simulation.waiting())
            simulation.assign(server[env] < 0 ? no_server : static_cast<uint16_t>(server[env]),
                              call);
        simulation.run_to_choice(longest_ns, call);
    });
}

py::dict Twin::choices() {
    check_begun();
    Choices choices(simulations_.size(), servers_);
    for_each([&](size_t env, Interrupt &) { choices.fill(env, simulations_[env]); });
    return choices.dict();
}

py::dict Twin::observe(const std::vector<uint8_t> &wanted) {
    check_begun();
    if (wanted.size() != balancers_)
        throw py::value_error("wanted: one for each balancer");
    Observation observation(simulations_.size(), balancers_, servers_, wanted);
    for_each([&](size_t env, Interrupt &) { observation.fill(env, simulations_[env]); });
    return observation.dict();
}

py::dict Twin::truth() {
    check_begun();
    Truth truth(simulations_.size(), balancers_, servers_);
    for_each([&](size_t env, Interrupt &) { truth.fill(env, simulations_[env]); });
    return truth.dict();
}

py::array Twin::ongoing() {
    check_begun();
    const Column<int64_t> found({simulations_.size(), balancers_, servers_});
    int64_t *to = found.data;
    for (Simulation &simulation : simulations_)
        for (const Balancer &balancer : simulation.balancers())
            for (size_t server = 0; server < servers_; server++)
                *to++ = balancer.ongoing()[server];
    return found.array;
}

py::array Twin::records(size_t env) {
    return rows_of(simulations_.at(env).take_records());
}

py::array Twin::under_way(size_t env) {
    check_begun();
    return rows_of(simulations_.at(env).under_way_records());
}

py::array Twin::rows_of(const Records &found) const {
    const size_t n = config_->resources;
    py::array rows(record_type(n), static_cast<py::ssize_t>(found.flows.size()));
    auto *to = static_cast<char *>(rows.mutable_data());
    const auto put = [&to](const void *from, size_t bytes) {
        std::memcpy(to, from, bytes);
        to += bytes;
    };
    for (size_t i = 0; i < found.flows.size(); i++) {
        const auto *record = reinterpret_cast<const char *>(&found.flows[i]);
        put(record, offsetof(Record, flow));
        put(&found.demand_ns[i * n], n * sizeof(int64_t));
        put(record + offsetof(Record, flow), sizeof(Record) - offsetof(Record, flow));
    }
    return rows;
}

py::array Twin::arrivals(uint64_t seed, int64_t until_ns) const {
    std::vector<Arrival> found;
    {
        const py::gil_scoped_release released;
        Interrupt call(ask_python);
        found = Simulation(config_).arrivals(seed, until_ns, call);
    }
    return py::array_t<Arrival>(static_cast<py::ssize_t>(found.size()), found.data());
}

py::dict Twin::summary(size_t env) {
    check_begun();
    Simulation &simulation = simulations_.at(env);
    simulation.integrate();
    const Statistics &statistics = simulation.statistics();
    const auto measured_ns = static_cast<double>(std::max<int64_t>(simulation.measured_ns(), 1));
    const std::vector<ServerTotals> &servers = simulation.totals();
    py::list applications;
    for (const CompletionTimes &times : statistics.completion)
        applications.append(completion_dict(times));
    const auto average = [](double sum, uint64_t n) {
        return n ? sum / static_cast<double>(n) : 1.0;
    };
    py::dict found;
    found["duration_s"] = measured_ns / 1e9;
    found["events"] = simulation.events();
    found["arrivals"] = statistics.arrivals;
    for (size_t i = 0; i < statistics.outcomes.size(); i++) {
        constexpr const char *names[] = {"completed", "rejected", "pcc_violations", "lost"};
        found[names[i]] = statistics.outcomes[i];
    }
    found["untracked"] = statistics.untracked;
    found["messages"] = message_dict(simulation.messages());
    found["records_dropped"] = statistics.records_dropped;
    found["in_flight"] = simulation.in_flight();
    found["applications"] = applications;
    found["server_flows"] = list_of(servers, [](const ServerTotals &s) { return double(s.flows); });
    found["server_completed"] =
        list_of(servers, [](const ServerTotals &s) { return double(s.completed); });
    found["queue_mean"] = list_of(servers, [&](const ServerTotals &s) {
        return static_cast<double>(s.queue_time_ns) / measured_ns;
    });
    found["busy_mean"] = list_of(servers, [&](const ServerTotals &s) {
        return static_cast<double>(s.busy_time_ns) / measured_ns;
    });
    const Fairness &queue = statistics.queue, &remaining = statistics.remaining;
    found["jain_queue"] = average(queue.jain, queue.samples);
    found["jain_remaining"] = average(remaining.jain, remaining.samples);
    found["overprovision_queue"] = average(queue.overprovision, queue.samples);
    found["overprovision_remaining"] = average(remaining.overprovision, remaining.samples);
    return found;
}

py::bytes Twin::region(size_t env, size_t balancer) {
    check_begun();
    const auto region = std::make_unique<dcgym_lb_region>();
    Simulation &simulation = simulations_.at(env);
    simulation.balancers().at(balancer).publish(*region, simulation.now_ns());
    return {reinterpret_cast<const char *>(region.get()), sizeof *region};
}

} // namespace dcgym::twin::balancing
