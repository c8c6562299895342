// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service_station.hpp"

namespace dcgym {

/// What a request asks a server to do.
struct Work {
    std::vector<ServiceStage> stages;
    std::uint64_t bytes = 0; /* of the response's body */
};

/// Names of resources, by their numbers.
using ResourceNames = std::span<const std::string>;

/// Parses a query such as "cpu_us=100&io_us=20.5&cpu_us=3&bytes=4096"; stages are in its order.
///
/// Times are decimal numbers of microseconds, at most an hour, with nanosecond resolution.
std::optional<Work> parse_work(std::string_view query, ResourceNames names);

/// The same of a request's target, path and query; nothing for other paths than "/work".
std::optional<Work> parse_target(std::string_view target, ResourceNames names);

/// Writes the query that parse_work() reads.
std::string work_query(const std::vector<ServiceStage> &stages, std::uint64_t bytes,
                       ResourceNames names);

/// Whether a query and a line of words hold it as it is.
bool is_resource_name(std::string_view text);

} // namespace dcgym
