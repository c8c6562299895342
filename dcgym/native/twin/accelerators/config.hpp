// SPDX-License-Identifier: Apache-2.0
// A pool of servers with accelerators in numbers, as dcgym.backends.simulation.accelerators hands
// it over; checked there.
#pragma once

#include <cstdint>
#include <vector>

#include "connection_cells.hpp"
#include "core/request_source.hpp"
#include "device_rules.h"

namespace dcgym::twin::accelerators {

constexpr size_t devices = DCGYM_DEVICES; // of every server, those that are missing included

struct DeviceConfig {
    bool present = false;
    uint32_t workers = 1;
    uint32_t queue_limit = 0; // of the requests that wait
    double weight = 0;
    std::vector<double> service_ns; // mean by application
};

struct ServerConfig {
    double weight;
    std::vector<DeviceConfig> devices; // `devices` of them
};

enum class Agents : uint8_t {
#define DCGYM_ROW(name) name,
#include "tables/agent_kinds.h"
};

struct AgentConfig {
    Agents kind = Agents::none;
    int64_t period_ns = 0;
    uint32_t window = 1; // periods that a utilisation is taken over
    int64_t delay_ns = 0;
    double loss = 0;
    std::vector<int64_t> threshold_ns; // by application: a processing time above it is busy
    double release = 1;                // busy ends below this share of the threshold
    int64_t second_report_ns = 0;      // after a busy report, that it is over; 0: none
};

enum class Change : uint8_t {
#define DCGYM_ROW(symbol, ...) symbol,
#include "tables/device_events.h"
};

struct ScheduledChange {
    int64_t at_ns;
    Change change;
    std::vector<uint32_t> targets; // numbers of devices: server * `devices` + device
    double value;
};

struct Config : RequestWorkload {
    std::vector<ServerConfig> servers;
    AgentConfig agents;
    int64_t latency_ns;
    uint32_t threshold; // of prt, per cent
    int64_t max_age_ns;
    uint32_t ring_slots;
    CellConfig connection_table;
    std::vector<ScheduledChange> changes;
    size_t record_limit;
};

} // namespace dcgym::twin::accelerators
