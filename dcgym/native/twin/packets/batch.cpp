// SPDX-License-Identifier: Apache-2.0
#include "batch.hpp"

#include <algorithm>
#include <utility>

namespace dcgym::twin::packets {

namespace {

// In the order of monitors' PORT_STATE and HOST_STATE: counters, then levels.
constexpr size_t port_counters = 7, port_levels = 2, host_counters = 3, host_levels = 3;

} // namespace

Batch::Batch(const NetworkConfig &config, size_t size, size_t threads,
             std::vector<uint32_t> opposite, std::vector<Choice> choices, uint32_t n_weights)
    : networks_(size, Simulation(config)), workers_(std::min(threads, size)),
      opposite_(std::move(opposite)), choices_(std::move(choices)), n_weights_(n_weights) {}

// Calls done(network, number) after each. The networks after it, which no other thread works on,
// are on their way to the cache meanwhile.
template <typename Done>
void Batch::advance_each(const int64_t *until_ns, Interrupt::Ask ask, const Done &done) {
    workers_.for_ranges(size(), ask, [=, this, &done](size_t begin, size_t end, Interrupt &call) {
        for (size_t i = begin; i < end; i++) {
            call.look();
            Simulation &network = networks_[i];
            if (i + 2 < end)
                networks_[i + 2].fetch_itself();
            if (i + 1 < end)
                networks_[i + 1].fetch_parts();
            if (size() > 1)
                network.fetch_packets();
            if (until_ns[i] > network.now_ns())
                network.advance(until_ns[i], call);
            done(network, i);
        }
    });
}

void Batch::advance(const int64_t *until_ns, Interrupt::Ask ask) {
    advance_each(until_ns, ask, [](Simulation &, size_t) {});
}

void Batch::run(const int64_t *until_ns, int64_t *now_ns, uint64_t *words, bool *finished,
                const dcgym_interval_sink &sink, Interrupt::Ask ask) {
    const size_t row = row_words();
    advance_each(until_ns, ask, [=, this, &sink](Simulation &network, size_t i) {
        now_ns[i] = network.now_ns();
        finished[i] = network.is_finished();
        read_one(network, words + i * row);
        sink.take(sink.self, i);
    });
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
