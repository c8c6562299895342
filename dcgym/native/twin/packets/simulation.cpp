// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace dcgym::twin::packets {

Simulation::Simulation(NetworkConfig config)
    : config_(std::move(config)), ports_(config_.ports.size()), hosts_(config_.n_hosts) {
    for (size_t i = 0; i < ports_.size(); i++)
        ports_[i].configure(config_.ports[i]);
}

void Simulation::reset(const EpisodeConfig &episode) {
    now_ns_ = 0;
    start_ns_ = episode.start_ns;
    random_ = Splitmix(stream_seed(episode.seed, 'p', 0));
    path_random_ = stream_seed(episode.seed, 'r', 0);
    start_random_ = Splitmix(stream_seed(episode.seed, 'o', 0));
    timer_random_ = Splitmix(stream_seed(episode.seed, 't', 0));
    lateness_ = Lateness(config_.timer_late_ns);
    clock_ =
        Clock(lateness_.is_on() ? timer_random_.between(0, Clock::period_ticks * tick_ns - 1) : 0);
    burst_ns_ = -1;
    packet_hops_ = 0;
    for (uint32_t i = 0; i < n_ports(); i++)
        ports_[i].reset(i < n_switch_ports() ? episode.marking[i] : MarkingRule{}, now_ns_,
                        lateness_, stream_seed(episode.seed, 'q', i));
    host_rates_bps_.resize(config_.n_hosts);
    for (uint32_t i = 0; i < config_.n_hosts; i++)
        host_rates_bps_[i] = config_.ports[n_switch_ports() + i].rate_bps;
    hosts_.assign(config_.n_hosts, {});
    matrix_.assign(config_.counts_matrix ? size_t{n_switch_ports()} * config_.n_hosts : 0, 0);

    groups_.clear();
    for (size_t i = 0; i < episode.group_ports.size(); i++)
        groups_.emplace_back(episode.group_salts[i], episode.group_ports[i]);
    routes_ = episode.routes;
    routes_version_ = tables_version_ = 1;

    flows_.clear();
    free_slots_.clear();
    active_.clear();
    records_.clear();
    waiting_.clear();
    script_.clear();
    notes_.clear();
    free_notes_.clear();
    script_ns_.clear();
    waiting_order_ = next_start_ = exhausted_ = udp_sends_per_s_ = next_scripted_ = 0;

    plan_ = episode.flows;
    // More flows at a time bring more leaves: each level of the tree costs all changes time.
    tree_.reset(leaf_of(static_cast<uint32_t>(std::min<size_t>(plan_.size(), 16))));
    congestion_control_.clear();
    for (const std::string &name : episode.congestion_control) {
        congestion_control_.push_back(find_congestion_control(name));
        if (congestion_control_.back().ops == nullptr)
            throw std::invalid_argument("no congestion control " + name);
    }
    by_start_.clear();
    successors_.assign(plan_.size(), {});
    for (uint32_t id = 0; id < plan_.size(); id++) {
        if (plan_[id].after < 0)
            by_start_.push_back(id);
        else
            successors_[static_cast<size_t>(plan_[id].after)].push_back(id);
    }
    std::stable_sort(by_start_.begin(), by_start_.end(), [this](uint32_t a, uint32_t b) {
        return plan_[a].start_ns < plan_[b].start_ns;
    });
    if (!by_start_.empty())
        tree_.set(starts_leaf(), start_ns_ + plan_[by_start_[0]].start_ns);
}

void Simulation::advance(int64_t until_ns, Interrupt &call) {
    Interrupt::Events events(call);
    while (tree_.first_ns() <= until_ns) {
        const uint32_t leaf = tree_.first();
        now_ns_ = tree_.first_ns();
        if (leaf < n_ports())
            arrive(leaf);
        else if (leaf == starts_leaf())
            start_due();
        else if (leaf == script_leaf())
            send_scripted();
        else
            on_timer(leaf - leaf_of(0));
        events.next();
    }
    now_ns_ = std::max(now_ns_, until_ns);
}

void Simulation::fetch_parts() const {
    fetch(ports_.data(), ports_.size() * sizeof(Port));
    tree_.fetch_all();
    for (size_t i = 0; i < std::min<size_t>(active_.size(), 8); i++)
        fetch(&flows_[active_[i]], sizeof(Flow));
}

void Simulation::fetch_packets() const {
    for (size_t i = 0; i < std::min<size_t>(ports_.size(), 32); i++)
        ports_[i].fetch_next();
    for (size_t i = 0; i < std::min<size_t>(active_.size(), 8); i++)
        flows_[active_[i]].sender.fetch_next();
}

void Simulation::set_host_rates(const uint64_t *rates_bps) {
    for (uint32_t host = 0; host < config_.n_hosts; host++) {
        if (rates_bps[host] == host_rates_bps_[host])
            continue;
        host_rates_bps_[host] = rates_bps[host];
        set_port_rate(n_switch_ports() + host, rates_bps[host]);
    }
}

void Simulation::set_port_rate(uint32_t port, uint64_t rate_bps) {
    ports_[port].set_rate(rate_bps, now_ns_);
    look_again(port);
}

void Simulation::set_port_loss(uint32_t port, double before, double after) {
    const auto scaled = [](double probability) {
        return static_cast<uint32_t>(std::min(std::max(probability, 0.0) * 0x1p32, 0xffffffffp0));
    };
    ports_[port].set_loss(scaled(before), scaled(after));
}

void Simulation::set_weights(uint32_t group, const double *weights) {
    groups_[group].set_weights(weights);
    tables_version_++;
}

uint32_t Simulation::add_group(uint32_t salt, const std::vector<uint32_t> &ports) {
    groups_.emplace_back(salt, ports);
    return static_cast<uint32_t>(groups_.size() - 1);
}

void Simulation::set_route(uint32_t node, uint32_t host, uint32_t group) {
    routes_[size_t{node} * config_.n_hosts + host] = group;
    routes_version_++;
    tables_version_++;
}

void Simulation::read_senders(uint64_t *srtt_ns, uint64_t *active) const {
    std::fill_n(srtt_ns, config_.n_hosts, 0);
    std::fill_n(active, config_.n_hosts, 0);
    std::vector<uint64_t> measured(config_.n_hosts);
    for (const uint32_t slot : active_) {
        const Flow &flow = flows_[slot];
        active[flow.src]++;
        if (!flow.is_udp && flow.sender.srtt_us != 0) {
            srtt_ns[flow.src] += flow.sender.srtt_us >> 3;
            measured[flow.src]++;
        }
    }
    for (uint32_t host = 0; host < config_.n_hosts; host++)
        if (measured[host] != 0)
            srtt_ns[host] = srtt_ns[host] * 1000 / measured[host];
}

uint64_t Simulation::packets_in_network() const {
    uint64_t sum = 0;
    for (uint32_t slot = 0; slot < flows_.size(); slot++)
        sum += flows_[slot].in_network;
    return sum;
}

uint64_t Simulation::packets_held() const {
    return std::accumulate(ports_.begin(), ports_.end(), uint64_t{0},
                           [](uint64_t sum, const Port &port) { return sum + port.held(); });
}

const Sender *Simulation::sender_of(uint32_t flow) const {
    for (const uint32_t slot : active_)
        if (flows_[slot].id == flow)
            return &flows_[slot].sender;
    return nullptr;
}

} // namespace dcgym::twin::packets
