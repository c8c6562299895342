// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include <algorithm>

namespace dcgym::twin::balancing {
namespace {

constexpr double service_memory = 0.1; // weight of a new service time in the mean

} // namespace

void Server::clear(int64_t now_ns) {
    integrate(now_ns);
    cpu.clear();
    io.clear();
    first_waiting = last_waiting = no_flow;
    waiting = handshaking = 0;
    cpu_pending_ns = io_pending_ns = 0;
    mean_service_ns = 0;
    epoch++;
}

void Server::integrate(int64_t now_ns) {
    const int64_t passed_ns = now_ns - since_ns;
    queue_time_ns += queue() * passed_ns;
    busy_time_ns += busy() * passed_ns;
    since_ns = now_ns;
}

void Server::update_rates(int64_t now_ns) {
    const double n = static_cast<double>(cpu.size()) + colocated;
    const double share = n > config->workers ? config->workers / n : 1;
    cpu.set_rate(now_ns, config->cpu_speed * factor * share);
    io.set_rate(now_ns, config->io_speed / std::max<double>(1, static_cast<double>(io.size())));
}

void Server::enqueue(FlowStore &flows, FlowId id) {
    flows[id].next = no_flow;
    if (waiting++ == 0)
        first_waiting = id;
    else
        flows[last_waiting].next = id;
    last_waiting = id;
}

FlowId Server::dequeue(FlowStore &flows) {
    const FlowId id = first_waiting;
    first_waiting = flows[id].next;
    waiting--;
    return id;
}

double Server::capacity() const {
    const double workers = config->workers;
    return config->cpu_speed * factor * workers * workers / (workers + colocated);
}

double Server::remaining_ns(int64_t now_ns, int64_t more_cpu_ns, int64_t more_io_ns) const {
    const double cpu_ns = cpu.all_left(now_ns) + static_cast<double>(cpu_pending_ns + more_cpu_ns);
    const double io_ns = io.all_left(now_ns) + static_cast<double>(io_pending_ns + more_io_ns);
    return cpu_ns / capacity() + io_ns / config->io_speed;
}

uint64_t Server::reported_speed() const {
    if (mean_service_ns <= 0)
        return 0;
    const uint32_t flows_served = std::min(queue(), config->workers);
    const double per_tick = flows_served * double(1 << DCGYM_TICK_SHIFT) / mean_service_ns;
    return static_cast<uint64_t>(std::min(per_tick * double(DCGYM_SCORE_ONE), 0x1p35));
}

void Server::note_service(int64_t service_ns) {
    const auto service = static_cast<double>(service_ns);
    mean_service_ns += (mean_service_ns <= 0 ? 1 : service_memory) * (service - mean_service_ns);
}

} // namespace dcgym::twin::balancing
