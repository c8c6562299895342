// SPDX-License-Identifier: Apache-2.0
#include "collector.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "common/clock.hpp"
#include "fabric.h"
#include "generator.h"
#include "queues.h"
#include "queues.hpp"
#include "sequence_lock.hpp"
#include "telemetry.h"

namespace dcgym {
namespace {

// To sample 256 flows takes 0.2 ms.
constexpr uint64_t kSampleLeadNs = 250'000;

// As in traffic/sequence_lock.py: a writer that lost its processor inside a write on a busy machine
// gets it back long before.
constexpr uint64_t kReadDeadlineNs = 1'000'000'000;

uint64_t load(const uint64_t *word, std::memory_order order) {
    return std::atomic_ref<uint64_t>(*const_cast<uint64_t *>(word)).load(order);
}

// The kernel counts these in 32 bits, which wrap in a life of days.
uint64_t difference(uint64_t now, uint64_t base) {
    return static_cast<uint32_t>(now) - static_cast<uint32_t>(base);
}

} // namespace

size_t telemetry_bytes(size_t n_ports, size_t n_hosts) {
    return sizeof(dcgym_telemetry_header) + n_ports * sizeof(dcgym_telemetry_port) +
           n_hosts * sizeof(dcgym_telemetry_host);
}

uint64_t read_consistent(const char *region, size_t bytes, char *destination) {
    const auto *header = reinterpret_cast<const dcgym_telemetry_header *>(region);
    const uint64_t deadline = monotonic_ns() + kReadDeadlineNs;
    do {
        const uint64_t before = load(&header->sequence, std::memory_order_acquire);
        if (before % 2 != 0) {
            std::this_thread::yield();
            continue;
        }
        memcpy(destination, region, bytes);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (load(&header->sequence, std::memory_order_relaxed) == before)
            return before;
    } while (monotonic_ns() < deadline);
    throw std::runtime_error("no whole block for 1 s: its writer stopped inside a write");
}

Collector::Collector(CollectorSources sources)
    : n_ports_(sources.queues.rx_slots.size()), n_hosts_(sources.n_hosts),
      queue_program_fd_(sources.queues.program_fd), rx_slots_(std::move(sources.queues.rx_slots)),
      region_(sources.telemetry_fd, telemetry_bytes(n_ports_, n_hosts_), true),
      queue_map_(sources.queues.map_fd, sources.queues.n_queues * sizeof(dcgym_queue), false),
      queues_(reinterpret_cast<const dcgym_queue *>(queue_map_.data()), sources.queues.n_queues),
      staged_ports_(n_ports_), staged_hosts_(n_hosts_), base_ports_(n_ports_),
      base_hosts_(n_hosts_), rates_bps_(n_hosts_) {
    if (queues_.size() < n_ports_ + n_hosts_)
        throw std::invalid_argument("one queue per port and per host");
    for (const size_t slot : rx_slots_)
        if (slot >= queues_.size())
            throw std::invalid_argument("no queue at the other end of a port");
    header_ = reinterpret_cast<dcgym_telemetry_header *>(region_.data());
    ports_ = reinterpret_cast<dcgym_telemetry_port *>(header_ + 1);
    hosts_ = reinterpret_cast<dcgym_telemetry_host *>(ports_ + n_ports_);
    if (sources.port_map_fd >= 0)
        port_map_ = std::make_unique<Mapping>(sources.port_map_fd,
                                              n_ports_ * sizeof(dcgym_port_counters), true);
    if (sources.generator_fd >= 0) {
        const size_t bytes =
            sizeof(dcgym_generator_header) + n_hosts_ * sizeof(dcgym_generator_host);
        generator_ = std::make_unique<Mapping>(sources.generator_fd, bytes, true);
    }
    *header_ = {};
    header_->magic = DCGYM_TELEMETRY_MAGIC;
    header_->version = DCGYM_TELEMETRY_VERSION;
    header_->n_ports = n_ports_;
    header_->n_hosts = n_hosts_;
}

Collector::~Collector() {
    stop();
}

// What arrives at a port is what has left the queue at the other end of its wire.
void Collector::collect_port_queues() {
    for (size_t index = 0; index < n_ports_; index++) {
        const dcgym_queue &own = queues_[index], &peer = queues_[rx_slots_[index]];
        auto &port = staged_ports_[index];
        port.tx_bytes = own.tx_bytes;
        port.tx_packets = own.tx_packets;
        port.rx_bytes = peer.tx_bytes;
        port.rx_packets = peer.tx_packets;
        port.drops = own.drops;
        port.overlimits = own.overlimits;
        port.backlog_bytes = own.backlog_bytes;
    }
}

// The peak is the kernel's: the BPF program raises it at each arrival, the reset is one atomic
// exchange, so that a burst between two reads is neither lost nor counted twice.
void Collector::collect_map(bool reset_peaks) {
    if (!port_map_)
        return;
    auto *counters = reinterpret_cast<dcgym_port_counters *>(port_map_->data());
    for (size_t index = 0; index < n_ports_; index++) {
        auto &port = staged_ports_[index];
        std::atomic_ref<__u64> peak(counters[index].peak_bytes);
        const uint64_t met = reset_peaks ? peak.exchange(0) : peak.load();
        port.peak_bytes = std::max<uint64_t>(met, port.backlog_bytes);
        port.marks = counters[index].marks;
    }
}

void Collector::collect_hosts() {
    if (generator_) {
        const auto *header = reinterpret_cast<const dcgym_generator_header *>(generator_->data());
        const auto *sources = reinterpret_cast<const dcgym_generator_host *>(header + 1);
        source_ns_ = load(reinterpret_cast<const uint64_t *>(&header->heartbeat_ns),
                          std::memory_order_acquire);
        for (size_t index = 0; index < n_hosts_; index++) {
            const dcgym_generator_host &from = sources[index];
            staged_hosts_[index] = {from.tx_bytes,
                                    from.rx_bytes,
                                    from.retransmits,
                                    from.srtt_ns,
                                    from.min_rtt_ns,
                                    from.rtt_sum_ns,
                                    from.rtt_samples,
                                    from.active_flows,
                                    0,
                                    0,
                                    0};
        }
    }
    for (size_t index = 0; index < n_hosts_; index++)
        staged_hosts_[index].rate_bps = rates_bps_[index];
}

void Collector::collect_host_queues() {
    for (size_t index = 0; index < n_hosts_; index++) {
        const dcgym_queue &queue = queues_[n_ports_ + index];
        staged_hosts_[index].backlog_bytes = queue.backlog_bytes;
        staged_hosts_[index].drops = queue.drops;
    }
}

void Collector::gather(bool reset_peaks) {
    read_queues(queue_program_fd_);
    collect_port_queues();
    collect_map(reset_peaks);
    collect_hosts();
    collect_host_queues();
}

void Collector::subtract_base() {
    for (size_t index = 0; index < n_ports_; index++) {
        auto &port = staged_ports_[index];
        const auto &base = base_ports_[index];
        port.tx_bytes -= base.tx_bytes;
        port.tx_packets -= base.tx_packets;
        port.rx_bytes -= base.rx_bytes;
        port.rx_packets -= base.rx_packets;
        port.drops = difference(port.drops, base.drops);
        port.overlimits = difference(port.overlimits, base.overlimits);
        port.marks -= base.marks;
    }
    for (size_t index = 0; index < n_hosts_; index++) {
        auto &host = staged_hosts_[index];
        const auto &base = base_hosts_[index];
        host.tx_bytes -= base.tx_bytes;
        host.rx_bytes -= base.rx_bytes;
        host.retransmits -= base.retransmits;
        host.rtt_sum_ns -= base.rtt_sum_ns;
        host.rtt_samples -= base.rtt_samples;
        host.drops = difference(host.drops, base.drops);
    }
}

// Everything slow happened before: the region is inconsistent only for two copies.
void Collector::publish(uint64_t began_ns) {
    const SequenceWrite write{header_->sequence};
    header_->time_ns = began_ns;
    header_->source_ns = source_ns_;
    header_->steps = loop_.steps;
    header_->step_ns = loop_.step_ns;
    header_->interval_ns = loop_.interval_ns;
    header_->action_latency_ns = loop_.action_latency_ns;
    header_->overrun_ns = loop_.overrun_ns;
    header_->worst_overrun_ns = loop_.worst_overrun_ns;
    header_->late_steps = loop_.late_steps;
    memcpy(ports_, staged_ports_.data(), n_ports_ * sizeof(dcgym_telemetry_port));
    memcpy(hosts_, staged_hosts_.data(), n_hosts_ * sizeof(dcgym_telemetry_host));
    header_->heartbeat_ns = monotonic_ns();
}

uint64_t Collector::collect(bool reset_peaks) {
    const std::lock_guard guard(mutex_);
    const uint64_t began_ns = monotonic_ns();
    gather(reset_peaks);
    subtract_base();
    if (reset_peaks)
        count_step(began_ns);
    publish(began_ns);
    return header_->sequence;
}

// Only who acts resets the peaks: the background thread's collections are no steps.
void Collector::count_step(uint64_t began_ns) {
    loop_.steps++;
    loop_.step_ns = step_began_ns_ == 0 ? 0 : began_ns - step_began_ns_;
    step_began_ns_ = began_ns;
}

void Collector::announce_deadline(uint64_t deadline_ns) {
    if (!generator_)
        return;
    auto *header = reinterpret_cast<dcgym_generator_header *>(generator_->data());
    std::atomic_ref<uint64_t>(header->sample_due_ns)
        .store(deadline_ns - kSampleLeadNs, std::memory_order_relaxed);
}

void Collector::note_action(uint64_t acknowledged_ns) {
    const std::lock_guard guard(mutex_);
    loop_.action_latency_ns = step_began_ns_ == 0 ? 0 : acknowledged_ns - step_began_ns_;
}

void Collector::note_deadline(uint64_t deadline_ns, uint64_t overrun_ns) {
    const std::lock_guard guard(mutex_);
    loop_.interval_ns = deadline_ns_ == 0 ? 0 : deadline_ns - deadline_ns_;
    deadline_ns_ = deadline_ns;
    loop_.overrun_ns = overrun_ns;
    loop_.worst_overrun_ns = std::max(loop_.worst_overrun_ns, overrun_ns);
    loop_.late_steps += overrun_ns > DCGYM_LATE_NS;
    // Of several copies, which end their intervals one after the other, a later one announces its
    // deadline when it is over. Steps are evenly spaced.
    if (loop_.interval_ns > 0)
        announce_deadline(deadline_ns + loop_.interval_ns);
}

void Collector::rebase() {
    const std::lock_guard guard(mutex_);
    loop_ = {};
    step_began_ns_ = deadline_ns_ = 0;
    gather(true);
    base_ports_ = staged_ports_;
    base_hosts_ = staged_hosts_;
}

uint64_t Collector::total_backlog_bytes() {
    const std::lock_guard guard(mutex_);
    read_queues(queue_program_fd_);
    uint64_t total = 0;
    for (const dcgym_queue &queue : queues_)
        total += queue.backlog_bytes;
    return total;
}

void Collector::run_every(uint64_t period_ns) {
    stop();
    stopping_ = false;
    thread_ = std::thread([this, period_ns] { loop(period_ns); });
}

void Collector::loop(uint64_t period_ns) {
    std::unique_lock lock(wake_mutex_);
    while (
        !wake_.wait_for(lock, std::chrono::nanoseconds(period_ns), [this] { return stopping_; })) {
        try {
            collect(false);
        } catch (const std::exception &problem) {
            const std::lock_guard guard(mutex_);
            error_ = problem.what();
            return;
        }
    }
}

void Collector::stop() {
    {
        const std::lock_guard guard(wake_mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable())
        thread_.join();
}

void Collector::set_rates(const uint64_t *rates_bps) {
    const std::lock_guard guard(mutex_);
    rates_bps_.assign(rates_bps, rates_bps + n_hosts_);
}

std::string Collector::error() const {
    const std::lock_guard guard(mutex_);
    return error_;
}

} // namespace dcgym
