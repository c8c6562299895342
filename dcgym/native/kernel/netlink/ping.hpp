// SPDX-License-Identifier: Apache-2.0
// Reachability between all hosts, from one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dcgym {

struct PingHost {
    int namespace_fd;
    uint32_t address; // IPv4, network byte order
};

// Sends an echo request (RFC 792) from every host to every other one, again every 200 ms to those
// that have not answered, and returns after the last answer or the deadline: the pairs (source,
// target) without an answer, by position.
std::vector<std::pair<size_t, size_t>> unreachable_pairs(const std::vector<PingHost> &hosts,
                                                         int deadline_ms);

} // namespace dcgym
