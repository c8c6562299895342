// SPDX-License-Identifier: Apache-2.0
#include "twin.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "core/column.hpp"
#include "core/read_workload.hpp"
#include "python_signals.hpp"

namespace dcgym::twin::accelerators {
namespace {

std::vector<ServerConfig> servers_of(const py::dict &config, size_t applications) {
    using Row = std::tuple<bool, uint32_t, uint32_t, double, std::vector<double>>;
    std::vector<ServerConfig> servers;
    for (const auto &[weight, rows] :
         config["servers"].cast<std::vector<std::pair<double, std::vector<Row>>>>()) {
        if (rows.empty() || rows.size() > devices)
            throw py::value_error("servers: 1 to " + std::to_string(devices) + " devices");
        ServerConfig server{weight, {}};
        for (const auto &[present, workers, limit, share, service_ns] : rows) {
            if (service_ns.size() != applications)
                throw py::value_error("servers: a service time for each application");
            server.devices.push_back({present, workers, limit, share, service_ns});
        }
        server.devices.resize(devices);
        servers.push_back(std::move(server));
    }
    if (servers.empty() || servers.size() > DCGYM_RULE_SERVERS)
        throw py::value_error("servers: 1 to " + std::to_string(DCGYM_RULE_SERVERS));
    return servers;
}

AgentConfig agents_of(const py::dict &plain, size_t applications) {
    AgentConfig agents;
    agents.kind = static_cast<Agents>(plain["kind"].cast<uint8_t>());
    agents.period_ns = plain["period_ns"].cast<int64_t>();
    agents.window = plain["window"].cast<uint32_t>();
    agents.delay_ns = plain["delay_ns"].cast<int64_t>();
    agents.loss = plain["loss"].cast<double>();
    agents.threshold_ns = plain["threshold_ns"].cast<std::vector<int64_t>>();
    agents.release = plain["release"].cast<double>();
    agents.second_report_ns = plain["second_report_ns"].cast<int64_t>();
    if (agents.window < 1 || (agents.kind == Agents::periodic && agents.period_ns < 1))
        throw py::value_error("agents: a window and a period above 0");
    if (agents.kind == Agents::event && agents.threshold_ns.size() != applications)
        throw py::value_error("agents: a threshold for each application");
    return agents;
}

CellConfig cells_of(const py::dict &plain) {
    const CellConfig found{plain["cells"].cast<uint32_t>(), plain["bloom_bits"].cast<uint32_t>(),
                           plain["bloom_hashes"].cast<uint32_t>()};
    if (found.bloom_bits && !found.bloom_hashes)
        throw py::value_error("connection_table: hashes of the filter");
    return found;
}

std::vector<ScheduledChange> changes_of(const py::dict &config, size_t servers) {
    using Row = std::tuple<int64_t, uint8_t, std::vector<uint32_t>, double>;
    std::vector<ScheduledChange> changes;
    for (const auto &[at_ns, kind, targets, value] : config["events"].cast<std::vector<Row>>()) {
        for (const uint32_t target : targets)
            if (target >= servers * devices)
                throw py::value_error("events: a device that is not there");
        changes.push_back({at_ns, static_cast<Change>(kind), targets, value});
    }
    return changes;
}

std::shared_ptr<const Config> read_config(const py::dict &plain) {
    auto config = std::make_shared<Config>();
    static_cast<RequestWorkload &>(*config) = read_request_workload(plain);
    config->servers = servers_of(plain, config->applications.size());
    config->agents = agents_of(plain["agents"].cast<py::dict>(), config->applications.size());
    config->latency_ns = plain["latency_ns"].cast<int64_t>();
    config->threshold = plain["threshold"].cast<uint32_t>();
    config->max_age_ns = plain["max_age_ns"].cast<int64_t>();
    config->ring_slots = std::min<uint32_t>(plain["ring_slots"].cast<uint32_t>(), DCGYM_RING_SLOTS);
    config->connection_table = cells_of(plain["connection_table"].cast<py::dict>());
    config->changes = changes_of(plain, config->servers.size());
    config->record_limit = plain["record_limit"].cast<size_t>();
    return config;
}

// The order statistic that at least this share of the values does not exceed.
double quantile(std::vector<int64_t> &values, double share) {
    if (values.empty())
        return std::nan("");
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    const auto at = values.begin() + static_cast<ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
    std::nth_element(values.begin(), at, values.end());
    return static_cast<double>(*at);
}

double mean(const std::vector<int64_t> &values) {
    double sum = 0;
    for (const int64_t value : values)
        sum += static_cast<double>(value);
    return values.empty() ? std::nan("") : sum / static_cast<double>(values.size());
}

// Columns of one observation: of environments, and of their devices.
struct Observation {
    Observation(size_t envs, size_t servers)
        : n(servers * devices), time({envs}), arrivals({envs}), completed({envs}), failed({envs}),
          lost({envs}), reports({envs}), reports_lost({envs}), inherited({envs}),
          pcc_violations({envs}), latency_mean({envs}), latency_p50({envs}), latency_p99({envs}),
          utilisation({envs, servers, devices}), offered({envs, servers, devices}),
          share({envs, servers, devices}), queue({envs, servers, devices}),
          chosen({envs, servers, devices}), dropped({envs, servers, devices}),
          load({envs, servers, devices}), busy({envs, servers, devices}),
          age({envs, servers, devices}), present({envs, servers, devices}) {}

    void fill(size_t env, Simulation &simulation);
    py::dict dict() const;

    size_t n;
    Column<int64_t> time, arrivals, completed, failed, lost, reports, reports_lost;
    Column<int64_t> inherited, pcc_violations;
    Column<double> latency_mean, latency_p50, latency_p99;
    Column<double> utilisation, offered, share;
    Column<int64_t> queue, chosen, dropped, load, busy, age;
    Column<bool> present;
};

void Observation::fill(size_t env, Simulation &simulation) {
    simulation.integrate();
    Interval &interval = simulation.interval();
    const int64_t now_ns = simulation.now_ns();
    const double passed_ns = static_cast<double>(std::max<int64_t>(now_ns - interval.since_ns, 1));
    time.data[env] = now_ns;
    arrivals.data[env] = static_cast<int64_t>(interval.arrivals);
    completed.data[env] = static_cast<int64_t>(interval.completed);
    failed.data[env] = static_cast<int64_t>(interval.dropped);
    lost.data[env] = static_cast<int64_t>(interval.lost);
    reports.data[env] = static_cast<int64_t>(interval.reports);
    reports_lost.data[env] = static_cast<int64_t>(interval.reports_lost);
    inherited.data[env] = static_cast<int64_t>(interval.inherited);
    pcc_violations.data[env] = static_cast<int64_t>(interval.pcc_violations);
    latency_mean.data[env] = mean(interval.latencies_ns);
    latency_p50.data[env] = quantile(interval.latencies_ns, 0.5);
    latency_p99.data[env] = quantile(interval.latencies_ns, 0.99);
    for (size_t i = 0; i < n; i++) {
        const Device &device = simulation.device_states()[i];
        const dcgym_device &known = simulation.known()[i];
        const size_t to = env * n + i;
        const double full_ns = passed_ns * device.config->workers;
        utilisation.data[to] =
            static_cast<double>(device.busy_ns - device.interval_busy_ns) / full_ns;
        offered.data[to] = device.offered_ns / full_ns;
        share.data[to] = simulation.share(i);
        queue.data[to] = device.queue();
        chosen.data[to] = static_cast<int64_t>(device.chosen);
        dropped.data[to] = static_cast<int64_t>(device.dropped);
        load.data[to] = known.load;
        busy.data[to] = known.is_busy;
        age.data[to] = known.reports ? now_ns - static_cast<int64_t>(known.time_ns) : -1;
        present.data[to] = simulation.is_present(i);
    }
    simulation.begin_interval();
}

py::dict Observation::dict() const {
    return dict_of({{key<"time_ns">(), time.array},
                    {key<"arrivals">(), arrivals.array},
                    {key<"completed">(), completed.array},
                    {key<"dropped">(), failed.array},
                    {key<"lost">(), lost.array},
                    {key<"reports">(), reports.array},
                    {key<"reports_lost">(), reports_lost.array},
                    {key<"inherited">(), inherited.array},
                    {key<"pcc_violations">(), pcc_violations.array},
                    {key<"latency_mean_ns">(), latency_mean.array},
                    {key<"latency_p50_ns">(), latency_p50.array},
                    {key<"latency_p99_ns">(), latency_p99.array},
                    {key<"utilisation">(), utilisation.array},
                    {key<"offered">(), offered.array},
                    {key<"share">(), share.array},
                    {key<"queue">(), queue.array},
                    {key<"chosen">(), chosen.array},
                    {key<"device_dropped">(), dropped.array},
                    {key<"reported_load">(), load.array},
                    {key<"reported_busy">(), busy.array},
                    {key<"report_age_ns">(), age.array},
                    {key<"present">(), present.array}});
}

} // namespace

Twin::Twin(const py::dict &config, size_t n_envs, size_t threads)
    : config_(read_config(config)), workers_(std::min(threads, n_envs)),
      servers_(config_->servers.size()) {
    for (size_t env = 0; env < n_envs; env++) {
        simulations_.emplace_back(config_);
        simulations_.back().reset(env, 0);
    }
}

void Twin::for_each(const std::function<void(size_t, Interrupt &)> &work) {
    const py::gil_scoped_release released;
    workers_.for_each(simulations_.size(), ask_python, work);
}

void Twin::reset(const py::array_t<uint64_t, py::array::c_style> &seeds, const Doubles &rates,
                 const Mask &mask) {
    for_each([&, chosen = mask.data(), seed = seeds.data(), rate = rates.data()](size_t env,
                                                                                 Interrupt &) {
        if (chosen[env])
            simulations_[env].reset(seed[env], rate[env]);
    });
}

void Twin::set_rules(int server_rule, int device_rule, const Mask &mask) {
    for (size_t env = 0; env < simulations_.size(); env++)
        if (mask.data()[env])
            simulations_[env].set_rules(server_rule, device_rule);
}

void Twin::set_weights(const Doubles &weights, const Mask &mask) {
    for (size_t env = 0; env < simulations_.size(); env++)
        if (mask.data()[env])
            simulations_[env].set_weights(weights.data() + env * servers_ * devices);
}

void Twin::advance(const Integers &until_ns) {
    for_each([&, until = until_ns.data()](size_t env, Interrupt &call) {
        simulations_[env].advance(until[env], call);
    });
}

py::dict Twin::read(const Mask &mask) {
    Observation observation(simulations_.size(), servers_);
    for_each([&, chosen = mask.data()](size_t env, Interrupt &) {
        if (chosen[env])
            observation.fill(env, simulations_[env]);
    });
    return observation.dict();
}

static py::array array_of(const std::vector<Record> &found) {
    return py::array_t<Record>(static_cast<py::ssize_t>(found.size()), found.data());
}

py::array Twin::records(size_t env) {
    return array_of(simulations_.at(env).take_records());
}

py::array Twin::under_way(size_t env) const {
    return array_of(simulations_.at(env).under_way());
}

} // namespace dcgym::twin::accelerators
