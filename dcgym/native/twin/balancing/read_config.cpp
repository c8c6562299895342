// SPDX-License-Identifier: Apache-2.0
#include "read_config.hpp"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>

namespace dcgym::twin::balancing {
namespace {

Range range(const py::handle &pair) {
    const auto values = pair.cast<std::pair<int64_t, int64_t>>();
    return {values.first, values.second};
}

std::vector<ServerConfig> server_configs(const py::dict &config) {
    using Row = std::tuple<uint32_t, uint32_t, double, uint32_t>;
    std::vector<ServerConfig> servers;
    for (const auto &[weight, present, rows] :
         config["servers"].cast<std::vector<std::tuple<double, bool, std::vector<Row>>>>()) {
        ServerConfig server{weight, present, {}, {}};
        for (const auto &[workers, slots, speed, limit] : rows) {
            server.resources.push_back({workers, slots, speed});
            server.limits.push_back(limit);
        }
        servers.push_back(std::move(server));
    }
    return servers;
}

// Numbers of resources index arrays of this size without a further look.
size_t count_resources(const std::vector<ServerConfig> &servers) {
    const size_t n = servers.empty() ? 0 : servers.front().resources.size();
    if (n < 1 || n > max_resources)
        throw py::value_error("servers: 1 to " + std::to_string(max_resources) + " resources");
    for (const ServerConfig &server : servers)
        if (server.resources.size() != n)
            throw py::value_error("servers: each needs the same number of resources");
    return n;
}

void check_stages(const Config &config) {
    for (const ApplicationConfig &application : config.applications)
        for (const StageConfig &stage : application.stages)
            if (stage.resource >= config.resources || application.stages.size() > max_stages)
                throw py::value_error("applications: a resource that no server has, or more than " +
                                      std::to_string(max_stages) + " stages");
}

using Law = std::tuple<uint8_t, double, double, Distribution::Points>;

Distribution distribution(const Law &law) {
    const auto &[kind, mean_ns, shape, points] = law;
    if (kind > static_cast<uint8_t>(Kind::hyperexponential))
        throw py::value_error("distribution: unknown kind " + std::to_string(kind));
    return {static_cast<Kind>(kind), mean_ns, shape, points};
}

std::vector<ApplicationConfig> application_configs(const py::dict &config) {
    using Stage = std::tuple<uint8_t, Law, double, double>;
    std::vector<ApplicationConfig> applications;
    for (const auto &[rate, stages] :
         config["applications"].cast<std::vector<std::pair<double, std::vector<Stage>>>>()) {
        ApplicationConfig application{rate, {}};
        for (const auto &[resource, law, share, time_ns] : stages)
            application.stages.push_back({resource, distribution(law), {share, time_ns}});
        applications.push_back(std::move(application));
    }
    return applications;
}

ArrivalsConfig arrivals_config(const py::dict &plain) {
    ArrivalsConfig arrivals;
    arrivals.plain = plain["plain"].cast<bool>();
    arrivals.gaps = distribution(plain["gaps"].cast<Law>());
    arrivals.recorded = plain["recorded"].cast<std::vector<double>>();
    arrivals.applications = plain["applications"].cast<std::vector<uint16_t>>();
    arrivals.start = plain["start"].cast<double>();
    arrivals.modulation.factors = plain["factors"].cast<std::vector<double>>();
    arrivals.modulation.times_ns = plain["times_ns"].cast<std::vector<double>>();
    arrivals.modulation.markov = plain["markov"].cast<bool>();
    arrivals.modulation.phase = plain["phase"].cast<double>();
    arrivals.users = plain["users"].cast<uint32_t>();
    arrivals.think = distribution(plain["think"].cast<Law>());
    return arrivals;
}

// Numbers of a recording and a modulation index arrays without a further look.
void check_arrivals(const Config &config) {
    const ArrivalsConfig &arrivals = config.arrivals;
    if (arrivals.modulation.factors.size() != arrivals.modulation.times_ns.size())
        throw py::value_error("arrivals: a time for each factor");
    if (!arrivals.applications.empty() && arrivals.applications.size() != arrivals.recorded.size())
        throw py::value_error("arrivals: an application for each recorded arrival");
    for (const uint16_t application : arrivals.applications)
        if (application >= config.applications.size())
            throw py::value_error("arrivals: an application that is not there");
}

std::vector<ScheduledChange> changes(const py::dict &config) {
    using Event = std::tuple<int64_t, uint8_t, std::vector<uint32_t>, double, int64_t>;
    std::vector<ScheduledChange> found;
    for (const auto &[at_ns, kind, targets, value, period_ns] :
         config["events"].cast<std::vector<Event>>()) {
        const ScheduledChange change{at_ns, static_cast<Change>(kind), targets, value, period_ns};
        if (change.change == Change::moving_load && (targets.empty() || period_ns <= 0))
            throw py::value_error("events: a load moves between servers, once in each period");
        found.push_back(change);
    }
    return found;
}

} // namespace

std::shared_ptr<const Config> read_config(const py::dict &config, size_t record_limit,
                                          int64_t warm_up_ns) {
    const auto read = std::make_shared<Config>();
    read->servers = server_configs(config);
    read->resources = count_resources(read->servers);
    read->applications = application_configs(config);
    check_stages(*read);
    read->arrivals = arrivals_config(config["arrivals"].cast<py::dict>());
    check_arrivals(*read);
    read->balancers = config["balancers"].cast<uint32_t>();
    read->backlog = config["backlog"].cast<uint32_t>();
    read->flow_table_buckets = config["flow_table_buckets"].cast<uint32_t>();
    read->flow_table_ways = config["flow_table_ways"].cast<uint32_t>();
    read->half_open_limit = config["half_open_limit"].cast<uint32_t>();
    read->syn_timeout_ns = config["syn_timeout_ns"].cast<int64_t>();
    read->latency_ns = range(config["latency_ns"]);
    read->packet_interval_ns = config["packet_interval_ns"].cast<int64_t>();
    read->probe_interval_ns = config["probe_interval_ns"].cast<int64_t>();
    read->probe_delay_ns = range(config["probe_delay_ns"]);
    read->message_loss = config["message_loss"].cast<double>();
    read->message_copies = config["message_copies"].cast<double>();
    read->message_delay_ns = range(config["message_delay_ns"]);
    read->prequal = {config["prequal_quantile"].cast<double>(),
                     config["prequal_probes"].cast<double>(),
                     config["prequal_timeout_ns"].cast<int64_t>()};
    read->c3_reset_ns = config["c3_reset_ns"].cast<int64_t>();
    read->changes = changes(config);
    read->warm_up_ns = warm_up_ns;
    read->record_limit = record_limit;
    return read;
}

} // namespace dcgym::twin::balancing
