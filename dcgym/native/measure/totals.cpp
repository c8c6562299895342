// SPDX-License-Identifier: Apache-2.0
#include "totals.hpp"

#include <limits>

namespace dcgym::measure {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
// Jain's index of a sum, the number that it is of, and the sum of squares; 1 where there is none.
double jain(double total, double count, double squares) {
    const double whole = count * squares, nothing = 1.0 - std::min(whole, 1.0);
    return (total * total + nothing) / (whole + nothing);
}

} // namespace

Totals::Totals(const Layout &layout)
    : layout_(layout), n_ports_(layout.port_rates_bps.size()),
      n_hosts_(layout.host_rates_bps.size()), tx_(layout.ports.at("tx_bytes")),
      drops_(layout.ports.at("drops")), marks_(layout.ports.at("marks")),
      backlog_(layout.ports.at("backlog_bytes")), peak_(layout.ports.at("peak_bytes")),
      host_tx_(layout.hosts.at("tx_bytes")), host_rx_(layout.hosts.at("rx_bytes")),
      retransmits_(layout.hosts.at("retransmits")), srtt_(layout.hosts.at("srtt_ns")),
      active_(layout.hosts.at("active_flows")), host_backlog_(layout.hosts.at("backlog_bytes")) {}

void Totals::measure(const Rows &rows, double duration_s, double deliverable_bps, bool is_hidden,
                     double *out, size_t stride) const {
    const Hosts hosts = sum_hosts(rows, is_hidden);
    const double seconds = std::max(duration_s, 1e-9);
    const double goodput_bps = sum(rows, host_rx_, n_hosts_) * 8 / seconds;
    // Where nobody waits, more than 1 over 1.
    const double nobody = 1.0 - std::min(hosts.waiting, 1.0);
    const double could_bps = std::min(hosts.could_bps, deliverable_bps);
    const double unbound = (goodput_bps + nobody) / (could_bps + nobody);
    const double delivered = unbound > 1.0 ? 1.0 : unbound; // not std::min, which takes 1 for 0 / 0
    const double waiting_jain = jain(hosts.sent_bytes, hosts.waiting, hosts.sent_squares);
    const double fullest = queue_peak(rows);
    const double rtt_us = hosts.rtt_ns / (hosts.with_rtt > 0 ? hosts.with_rtt : nan) / 1e3;
    const std::array<double, n_totals> found{goodput_bps,
                                             highest(rows, backlog_, n_ports_),
                                             highest(rows, peak_, n_ports_),
                                             highest(rows, host_backlog_, n_hosts_),
                                             rtt_us,
                                             sum(rows, drops_, n_ports_),
                                             sum(rows, marks_, n_ports_),
                                             sum(rows, retransmits_, n_hosts_),
                                             jain(hosts.tx_bytes, hosts.sending, hosts.tx_squares),
                                             utilisation(rows, seconds),
                                             delivered,
                                             waiting_jain,
                                             fullest,
                                             delivered * (1 - (fullest + 1 - waiting_jain) / 2)};
    for (size_t i = 0; i < found.size(); i++)
        out[i * stride] = found[i];
}

Totals::Hosts Totals::sum_hosts(const Rows &rows, bool is_hidden) const {
    Hosts sums{};
    for (size_t i = 0; i < n_hosts_; i++) {
        const double tx_bytes = rows.rise(host_tx_ + i), active = rows.level(active_ + i);
        const double before = static_cast<double>(rows.before[active_ + i]);
        const double sending = std::min(std::max(active, tx_bytes), 1.0);
        const double waiting = std::min(is_hidden ? tx_bytes : std::min(active, before), 1.0);
        const double sent_bytes = tx_bytes * waiting, rtt_ns = rows.level(srtt_ + i) * sending;
        sums.tx_bytes += tx_bytes;
        sums.sent_bytes += sent_bytes;
        sums.sending += sending;
        sums.waiting += waiting;
        sums.rtt_ns += rtt_ns;
        sums.with_rtt += std::min(rtt_ns, 1.0);
        sums.tx_squares += tx_bytes * tx_bytes;
        sums.sent_squares += sent_bytes * sent_bytes;
        sums.could_bps += waiting * layout_.host_rates_bps[i];
    }
    return sums;
}

double Totals::sum(const Rows &rows, size_t start, size_t count) const {
    double total = 0;
    for (size_t i = start; i < start + count; i++)
        total += rows.rise(i);
    return total;
}

double Totals::highest(const Rows &rows, size_t start, size_t count) const {
    const uint64_t *first = rows.after + start;
    return static_cast<double>(*std::max_element(first, first + count));
}

double Totals::utilisation(const Rows &rows, double seconds) const {
    double most = 0;
    for (size_t i = 0; i < n_ports_; i++)
        most = std::max(most, rows.rise(tx_ + i) * 8 / seconds / layout_.port_rates_bps[i]);
    return most;
}

double Totals::queue_peak(const Rows &rows) const {
    double most = 0;
    for (size_t i = 0; i < n_ports_; i++)
        most = std::max(most, rows.level(backlog_ + i) / layout_.queue_limits_bytes[i]);
    return std::min(most, 1.0);
}

} // namespace dcgym::measure
