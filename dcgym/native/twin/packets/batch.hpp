// SPDX-License-Identifier: Apache-2.0
// Networks of one configuration, stepped together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/workers.hpp"
#include "interval.h"
#include "simulation.hpp"
#include "state_words.hpp"

namespace dcgym::twin::packets {

// A group whose ports are weighed, and where its weights begin among all.
struct Choice {
    uint32_t group = 0;
    uint32_t first = 0;
};

// Where the words of each field begin in a row, of the first switch port or host.
struct StateRow {
    StateRow(size_t n_words, const Starts &ports, const Starts &hosts);

    size_t words; // of a row
    size_t tx_bytes, tx_packets, rx_bytes, rx_packets, drops, overlimits, marks;
    size_t backlog_bytes, peak_bytes;
    size_t host_tx_bytes, host_rx_bytes, retransmits;
    size_t srtt_ns, active_flows, host_backlog_bytes;
};

// They share nothing: what becomes of one depends on its own episode and on what is done to it,
// whatever the number of networks and of threads.
class Batch {
  public:
    Batch(const NetworkConfig &config, const StateRow &row, size_t size, size_t threads,
          std::vector<uint32_t> opposite, std::vector<Choice> choices, uint32_t n_weights);

    size_t size() const { return networks_.size(); }
    Simulation &network(size_t number) { return networks_.at(number); }
    const Simulation &network(size_t number) const { return networks_.at(number); }

    // A row a network in each of these. Throws Interrupted where ask ends the call: each network is
    // then where one of its events has left it.
    void advance(const int64_t *until_ns, Interrupt::Ask ask);
    // Runs an interval of each, and lets it be measured (dcgym_interval_runner); likewise.
    void run(const int64_t *until_ns, int64_t *now_ns, uint64_t *words, bool *finished,
             const dcgym_interval_sink &sink, Interrupt::Ask ask);
    void read_flows(dcgym_agent_flow *out, uint32_t count) const;

    // Of the networks in the mask, a byte each.
    void set_host_rates(const uint64_t *rates_bps, const uint8_t *mask);
    void set_weights(const double *weights, const uint8_t *mask);
    void command_flows(const dcgym_agent_command *commands, uint32_t count,
                       const uint64_t *lease_us, const uint8_t *mask);
    // What their ports and hosts show, and a new interval for the peaks.
    size_t row_words() const { return row_.words; }
    void read(const uint8_t *mask, uint64_t *words);

  private:
    template <typename Done>
    void advance_each(const int64_t *until_ns, Interrupt::Ask ask, const Done &done);
    void read_one(Simulation &network, uint64_t *words) const;

    StateRow row_;
    std::vector<Simulation> networks_;
    Workers workers_;
    std::vector<uint32_t> opposite_; // the port at the other end of each switch port's link
    std::vector<Choice> choices_;
    uint32_t n_weights_;
};

} // namespace dcgym::twin::packets
