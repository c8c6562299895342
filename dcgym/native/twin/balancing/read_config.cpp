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
    const auto workers = config["workers"].cast<std::vector<uint32_t>>();
    const auto slots = config["slots"].cast<std::vector<uint32_t>>();
    const auto cpu_speed = config["cpu_speed"].cast<std::vector<double>>();
    const auto io_speed = config["io_speed"].cast<std::vector<double>>();
    const auto weight = config["weight"].cast<std::vector<double>>();
    const auto present = config["present"].cast<std::vector<bool>>();
    std::vector<ServerConfig> servers;
    for (size_t i = 0; i < workers.size(); i++)
        servers.push_back({workers[i], slots[i], cpu_speed[i], io_speed[i], weight[i], present[i]});
    return servers;
}

std::vector<ApplicationConfig> application_configs(const py::dict &config) {
    using Stage = std::tuple<uint8_t, uint8_t, double, double>;
    std::vector<ApplicationConfig> applications;
    for (const auto &[rate, stages] :
         config["applications"].cast<std::vector<std::pair<double, std::vector<Stage>>>>()) {
        ApplicationConfig application{rate, {}};
        for (const auto &[resource, kind, mean_ns, shape] : stages)
            application.stages.push_back({static_cast<Resource>(resource),
                                          Distribution(static_cast<Kind>(kind), mean_ns, shape)});
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
    read->applications = application_configs(config);
    read->balancers = config["balancers"].cast<uint32_t>();
    read->backlog = config["backlog"].cast<uint32_t>();
    read->flow_table_buckets = config["flow_table_buckets"].cast<uint32_t>();
    read->flow_table_ways = config["flow_table_ways"].cast<uint32_t>();
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
