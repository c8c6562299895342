// SPDX-License-Identifier: Apache-2.0
#include "batch.hpp"

#include <algorithm>
#include <utility>

namespace dcgym::twin::packets {

StateRow::StateRow(size_t n_words, const Starts &ports, const Starts &hosts)
    : words(n_words), tx_bytes(ports.at("tx_bytes")), tx_packets(ports.at("tx_packets")),
      rx_bytes(ports.at("rx_bytes")), rx_packets(ports.at("rx_packets")), drops(ports.at("drops")),
      overlimits(ports.at("overlimits")), marks(ports.at("marks")),
      backlog_bytes(ports.at("backlog_bytes")), peak_bytes(ports.at("peak_bytes")),
      host_tx_bytes(hosts.at("tx_bytes")), host_rx_bytes(hosts.at("rx_bytes")),
      retransmits(hosts.at("retransmits")), srtt_ns(hosts.at("srtt_ns")),
      active_flows(hosts.at("active_flows")), host_backlog_bytes(hosts.at("backlog_bytes")) {}

Batch::Batch(const NetworkConfig &config, const StateRow &row, size_t size, size_t threads,
             std::vector<uint32_t> opposite, std::vector<Choice> choices, uint32_t n_weights)
    : row_(row), networks_(size, Simulation(config)), workers_(std::min(threads, size)),
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
    advance_each(until_ns, ask, [=, this, &sink](Simulation &network, size_t i) {
        now_ns[i] = network.now_ns();
        finished[i] = network.is_finished();
        read_one(network, words + i * row_.words);
        sink.take(sink.self, i);
    });
}

void Batch::set_host_rates(const uint64_t *rates_bps, const uint8_t *mask) {
    for (size_t i = 0; i < size(); i++)
        if (mask[i] != 0)
            networks_[i].set_host_rates(rates_bps + i * networks_[i].config().n_hosts);
}

void Batch::set_weights(const double *weights, const uint8_t *mask) {
    for (size_t i = 0; i < size(); i++)
        if (mask[i] != 0)
            for (const Choice &choice : choices_)
                networks_[i].set_weights(choice.group, weights + i * n_weights_ + choice.first);
}

void Batch::command_flows(const dcgym_agent_command *commands, uint32_t count,
                          const uint64_t *lease_us, const uint8_t *mask) {
    for (size_t i = 0; i < size(); i++)
        if (mask[i] != 0)
            networks_[i].command_flows(commands + i * count, count, lease_us[i]);
}

void Batch::read_flows(dcgym_agent_flow *out, uint32_t count) const {
    for (const Simulation &network : networks_) {
        network.read_flows(out, count);
        out += count;
    }
}

void Batch::read(const uint8_t *mask, uint64_t *words) {
    for (size_t i = 0; i < size(); i++)
        if (mask[i] != 0)
            read_one(networks_[i], words + i * row_.words);
}

void Batch::read_one(Simulation &network, uint64_t *words) const {
    const size_t n_ports = network.n_switch_ports(), n_hosts = network.config().n_hosts;
    for (uint32_t i = 0; i < n_ports; i++) {
        Port &port = network.port(i);
        const PortCounters sent = port.counters();
        const PortCounters arrived = network.port(opposite_[i]).counters();
        words[row_.tx_bytes + i] = sent.tx_bytes;
        words[row_.tx_packets + i] = sent.tx_packets;
        words[row_.rx_bytes + i] = arrived.tx_bytes;
        words[row_.rx_packets + i] = arrived.tx_packets;
        words[row_.drops + i] = sent.drops;
        words[row_.overlimits + i] = sent.overlimits;
        words[row_.marks + i] = sent.marks;
        words[row_.backlog_bytes + i] = port.backlog_bytes();
        words[row_.peak_bytes + i] = std::max(port.peak_bytes(), port.backlog_bytes());
        port.begin_peak();
    }
    network.read_senders(words + row_.srtt_ns, words + row_.active_flows);
    for (uint32_t i = 0; i < n_hosts; i++) {
        const HostCounters &counters = network.host(i);
        words[row_.host_tx_bytes + i] = counters.tx_bytes;
        words[row_.host_rx_bytes + i] = counters.rx_bytes;
        words[row_.retransmits + i] = counters.retransmits;
        const auto number = static_cast<uint32_t>(n_ports + i);
        words[row_.host_backlog_bytes + i] = network.port(number).backlog_bytes();
    }
}

} // namespace dcgym::twin::packets
