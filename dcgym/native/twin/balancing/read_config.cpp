// SPDX-License-Identifier: Apache-2.0
#include "read_config.hpp"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>

#include "core/read_workload.hpp"

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
    for (const FlowApplication &application : config.applications)
        for (const StageConfig &stage : application.stages)
            if (stage.resource >= config.resources)
                throw py::value_error("applications: a resource that no server has");
}

// Numbers of addresses and servers index arrays without a further look.
void read_vips(const py::dict &config, Config &read) {
    read.members = config["members"].cast<std::vector<std::vector<uint8_t>>>();
    read.vips_asked = config["vips_asked"].cast<std::vector<uint32_t>>();
    if (read.members.empty() || read.vips_asked.size() != read.applications.size())
        throw py::value_error("vips: at least one, and one for each application");
    for (const std::vector<uint8_t> &servers : read.members)
        if (servers.size() != read.servers.size())
            throw py::value_error("members: a flag for each server");
    for (const uint32_t vip : read.vips_asked)
        if (vip >= read.members.size())
            throw py::value_error("vips_asked: a virtual address that is not there");
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
    static_cast<FlowWorkload &>(*read) = read_flow_workload(config);
    check_stages(*read);
    read_vips(config, *read);
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
