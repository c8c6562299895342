// SPDX-License-Identifier: Apache-2.0
// Sums over all ports and hosts in an interval, as dcgym.tasks.network.totals names them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "counts.hpp"

namespace dcgym::measure {

// The metrics of an interval in their order, and what rewards alone ask for after them.
constexpr std::array metric_names{"goodput_bps",
                                  "queue_bytes",
                                  "queue_peak_bytes",
                                  "host_queue_bytes",
                                  "rtt_us",
                                  "drops",
                                  "marks",
                                  "retransmits",
                                  "jain",
                                  "utilisation"};
constexpr std::array reward_names{"delivered", "waiting_jain", "queue_peak", "delivery"};
constexpr size_t n_totals = metric_names.size() + reward_names.size();

class Totals {
  public:
    explicit Totals(const Layout &layout);

    // Writes a copy's totals, a stride apart from each other.
    // is_hidden: nobody knows who has something to send, and who sent, waited.
    void measure(const Rows &rows, double duration_s, double deliverable_bps, bool is_hidden,
                 double *out, size_t stride) const;

  private:
    struct Hosts {
        double tx_bytes, sent_bytes, tx_squares, sent_squares;
        double sending, waiting, could_bps, rtt_ns, with_rtt;
    };

    Hosts sum_hosts(const Rows &rows, bool is_hidden) const;
    double sum(const Rows &rows, size_t start, size_t count) const;
    double highest(const Rows &rows, size_t start, size_t count) const;
    double utilisation(const Rows &rows, double seconds) const;
    double queue_peak(const Rows &rows) const;

    const Layout &layout_;
    size_t n_ports_, n_hosts_;
    // Word of each field's first port or host.
    size_t tx_, drops_, marks_, backlog_, peak_;
    size_t host_tx_, host_rx_, retransmits_, srtt_, active_, host_backlog_;
};

} // namespace dcgym::measure
