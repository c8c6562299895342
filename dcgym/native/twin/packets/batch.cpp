// SPDX-License-Identifier: Apache-2.0
#include "batch.hpp"

#include <algorithm>
#include <utility>

#include "core/parallel.hpp"

namespace dcgym::twin::packets {

namespace {

// In the order of monitors' PORT_STATE and HOST_STATE: counters, then levels.
constexpr size_t port_counters = 7, port_levels = 2, host_counters = 3, host_levels = 3;

} // namespace

Batch::Batch(const NetworkConfig &config, size_t size, size_t threads,
             std::vector<uint32_t> opposite, std::vector<Choice> choices, uint32_t n_weights)
    : networks_(size, Simulation(config)), threads_(std::min(threads, size)),
      opposite_(std::move(opposite)), choices_(std::move(choices)), n_weights_(n_weights) {}

void Batch::advance(const int64_t *until_ns) {
    const auto step = [this, until_ns](size_t i) {
        if (until_ns[i] > networks_[i].now_ns())
            networks_[i].advance(until_ns[i]);
    };
    parallel_for(size(), threads_, step);
}

void Batch::set_host_rates(const uint64_t *rates_bps) {
    for (Simulation &network : networks_) {
        network.set_host_rates(rates_bps);
        rates_bps += network.config().n_hosts;
    }
}

void Batch::set_weights(const double *weights) {
    for (Simulation &network : networks_) {
        for (const Choice &choice : choices_)
            network.set_weights(choice.group, weights + choice.first);
        weights += n_weights_;
    }
}

void Batch::command_flows(const dcgym_agent_command *commands, uint32_t count,
                          const uint64_t *lease_us) {
    for (Simulation &network : networks_) {
        network.command_flows(commands, count, *lease_us++);
        commands += count;
    }
}

void Batch::read_flows(dcgym_agent_flow *out, uint32_t count) const {
    for (const Simulation &network : networks_) {
        network.read_flows(out, count);
        out += count;
    }
}

size_t Batch::row_words() const {
    const Simulation &first = networks_.front();
    return (port_counters + port_levels) * first.n_switch_ports() +
           (host_counters + host_levels) * first.config().n_hosts;
}

void Batch::read(const uint8_t *mask, uint64_t *words) {
    for (size_t i = 0; i < size(); i++)
        if (mask[i] != 0)
            read_one(networks_[i], words + i * row_words());
}

void Batch::read_one(Simulation &network, uint64_t *words) const {
    const size_t n_ports = network.n_switch_ports(), n_hosts = network.config().n_hosts;
    uint64_t *ports = words, *hosts = ports + port_counters * n_ports;
    uint64_t *levels = hosts + host_counters * n_hosts;
    uint64_t *senders = levels + port_levels * n_ports;
    for (uint32_t i = 0; i < n_ports; i++) {
        Port &port = network.port(i);
        const PortCounters sent = port.counters();
        const PortCounters arrived = network.port(opposite_[i]).counters();
        const uint64_t row[port_counters] = {sent.tx_bytes,      sent.tx_packets, arrived.tx_bytes,
                                             arrived.tx_packets, sent.drops,      sent.overlimits,
                                             sent.marks};
        for (size_t field = 0; field < port_counters; field++)
            ports[field * n_ports + i] = row[field];
        levels[i] = port.backlog_bytes();
        levels[n_ports + i] = std::max(port.peak_bytes(), port.backlog_bytes());
        port.begin_peak();
    }
    network.read_senders(senders, senders + n_hosts);
    for (uint32_t i = 0; i < n_hosts; i++) {
        const HostCounters &counters = network.host(i);
        hosts[i] = counters.tx_bytes;
        hosts[n_hosts + i] = counters.rx_bytes;
        hosts[2 * n_hosts + i] = counters.retransmits;
        const auto number = static_cast<uint32_t>(n_ports + i);
        senders[2 * n_hosts + i] = network.port(number).backlog_bytes();
    }
}

} // namespace dcgym::twin::packets
