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
    using Row = std::tuple<uint32_t, uint32_t, double>;
    std::vector<ServerConfig> servers;
    for (const auto &[weight, present, rows] :
         config["servers"].cast<std::vector<std::tuple<double, bool, std::vector<Row>>>>()) {
        ServerConfig server{weight, present, {}};
        for (const auto &[workers, slots, speed] : rows)
            server.resources.push_back({workers, slots, speed});
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

std::vector<ApplicationConfig> application_configs(const py::dict &config) {
    using Stage = std::tuple<uint8_t, uint8_t, double, double>;
    std::vector<ApplicationConfig> applications;
    for (const auto &[rate, stages] :
         config["applications"].cast<std::vector<std::pair<double, std::vector<Stage>>>>()) {
        ApplicationConfig application{rate, {}};
        for (const auto &[resource, kind, mean_ns, shape] : stages)
            application.stages.push_back(
                {resource, Distribution(static_cast<Kind>(kind), mean_ns, shape)});
        applications.push_back(std::move(application));
    }
    return applications;
}

std::vector<ScheduledChange> changes(const py::dict &config) {
    using Event = std::tuple<int64_t, uint8_t, std::vector<uint32_t>, double>;
    std::vector<ScheduledChange> found;
    for (const auto &[at_ns, kind, targets, value] : config["events"].cast<std::vector<Event>>())
        found.push_back({at_ns, static_cast<Change>(kind), targets, value});
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
    read->changes = changes(config);
    read->warm_up_ns = warm_up_ns;
    read->record_limit = record_limit;
    return read;
}

} // namespace dcgym::twin::balancing
