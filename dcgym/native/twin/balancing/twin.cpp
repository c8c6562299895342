// SPDX-License-Identifier: Apache-2.0
#include "twin.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

#include "core/figures.hpp"
#include "observation.hpp"
#include "python_signals.hpp"
#include "read_config.hpp"

namespace dcgym::twin::balancing {
namespace {

py::array column_of(const std::vector<ServerTotals> &servers,
                    const std::function<double(const ServerTotals &)> &value) {
    const Column<double> column({servers.size()});
    std::transform(servers.begin(), servers.end(), column.data, value);
    return column.array;
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
      frontends_(config_->frontends()), servers_(config_->servers.size()) {
    if (servers_ > DCGYM_RULE_SERVERS)
        throw py::value_error("servers: at most " + std::to_string(DCGYM_RULE_SERVERS));
    for (size_t env = 0; env < n_envs; env++)
        simulations_.emplace_back(config_);
}

void Twin::for_each(const std::function<void(size_t, Interrupt &)> &work) {
    const py::gil_scoped_release released;
    workers_.for_each(simulations_.size(), ask_python, work);
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

void Twin::set_rules(const std::vector<uint32_t> &rules, const Mask &mask) {
    check_begun();
    if (rules.size() != frontends_)
        throw py::value_error("rules: one for each front end");
    for (size_t env = 0; env < simulations_.size(); env++)
        for (size_t b = 0; mask.data()[env] && b < frontends_; b++)
            simulations_[env].frontends()[b].set_rule(rules[b]);
}

void Twin::set_weights(const Doubles &weights, const Mask &mask) {
    check_begun();
    for (size_t env = 0; env < simulations_.size(); env++)
        for (size_t b = 0; mask.data()[env] && b < frontends_; b++)
            simulations_[env].frontends()[b].set_weights(weights.data() +
                                                         (env * frontends_ + b) * servers_);
}

void Twin::set_in_service(const Mask &flags, const Mask &mask) {
    check_begun();
    if (static_cast<size_t>(flags.size()) != simulations_.size() * servers_)
        throw py::value_error("flags: one for each environment and server");
    for (size_t env = 0; env < simulations_.size(); env++)
        if (mask.data()[env])
            simulations_[env].set_in_service(flags.data() + env * servers_);
}

py::array Twin::advance(const Integers &until_ns) {
    check_begun();
    const Column<int64_t> reached({simulations_.size()});
    for_each([&, until = until_ns.data()](size_t env, Interrupt &call) {
        simulations_[env].advance(until[env], call);
        reached.data[env] = simulations_[env].now_ns();
    });
    return reached.array;
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

void Twin::assign(const Servers &servers, const Mask &mask) {
    check_begun();
    for_each([&, chosen = mask.data(), server = servers.data()](size_t env, Interrupt &call) {
        if (chosen[env] && simulations_[env].waiting())
            simulations_[env].assign(
                server[env] < 0 ? no_server : static_cast<uint16_t>(server[env]), call);
    });
}

py::tuple Twin::read(const std::vector<uint8_t> &sampled) {
    check_begun();
    if (sampled.size() != frontends_)
        throw py::value_error("sampled: one for each front end");
    const size_t n = simulations_.size();
    const Column<int64_t> time({n});
    View view(n, frontends_, servers_, sampled);
    Truth truth(n, frontends_, servers_);
    std::optional<Held> held;
    if (std::any_of(simulations_.begin(), simulations_.end(),
                    [](const Simulation &simulation) { return simulation.holds(); }))
        held.emplace(n, servers_);
    for_each([&](size_t env, Interrupt &) {
        time.data[env] = simulations_[env].now_ns();
        view.fill(env, simulations_[env]);
        truth.fill(env, simulations_[env]);
        if (held)
            held->fill(env, simulations_[env]);
    });
    return py::make_tuple(time.array, view.dict(), truth.dict(),
                          held ? py::object(held->dict()) : py::none());
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

py::dict Twin::summary(size_t env) {
    check_begun();
    Simulation &simulation = simulations_.at(env);
    simulation.integrate();
    const Statistics &statistics = simulation.statistics();
    const auto measured_ns = static_cast<double>(std::max<int64_t>(simulation.measured_ns(), 1));
    const std::vector<ServerTotals> &servers = simulation.totals();
    py::list applications;
    for (const CompletionTimes &times : statistics.completion)
        applications.append(figures_of(times));
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
    found["server_flows"] =
        column_of(servers, [](const ServerTotals &s) { return double(s.flows); });
    found["server_completed"] =
        column_of(servers, [](const ServerTotals &s) { return double(s.completed); });
    found["queue_mean"] = column_of(servers, [&](const ServerTotals &s) {
        return static_cast<double>(s.queue_time_ns) / measured_ns;
    });
    found["busy_mean"] = column_of(servers, [&](const ServerTotals &s) {
        return static_cast<double>(s.busy_time_ns) / measured_ns;
    });
    const Fairness &queue = statistics.queue, &remaining = statistics.remaining;
    found["jain_queue"] = average(queue.jain, queue.samples);
    found["jain_remaining"] = average(remaining.jain, remaining.samples);
    found["overprovision_queue"] = average(queue.overprovision, queue.samples);
    found["overprovision_remaining"] = average(remaining.overprovision, remaining.samples);
    return found;
}

py::bytes Twin::region(size_t env, size_t frontend) {
    check_begun();
    const auto region = std::make_unique<dcgym_lb_region>();
    Simulation &simulation = simulations_.at(env);
    simulation.frontends().at(frontend).publish(*region, simulation.now_ns());
    return {reinterpret_cast<const char *>(region.get()), sizeof *region};
}

} // namespace dcgym::twin::balancing
