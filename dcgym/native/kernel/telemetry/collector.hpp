// SPDX-License-Identifier: Apache-2.0
// Gathers queue, BPF and generator counters into one telemetry region (include/telemetry.h).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/mapping.hpp"

struct dcgym_telemetry_header;
struct dcgym_telemetry_port;
struct dcgym_telemetry_host;
struct dcgym_port_counters;
struct dcgym_queue;

namespace dcgym {

size_t telemetry_bytes(size_t n_ports, size_t n_hosts);

// Copies one consistent region; returns its sequence. Throws after 1 s: a writer that died inside a
// write leaves the sequence odd for ever.
uint64_t read_consistent(const char *region, size_t bytes, char *destination);

// Where the kernel's figures come from (queues.hpp): the queues of all switch ports, then one of
// each host, then any others. `rx_slots` names, for each port, the queue at the other end of its
// wire.
struct QueueSource {
    int program_fd, map_fd;
    size_t n_queues;
    std::vector<size_t> rx_slots;
};

// What a region is made of. Every descriptor stays the caller's; -1 where there is none.
struct CollectorSources {
    int telemetry_fd;
    size_t n_hosts;
    QueueSource queues;
    int port_map_fd;
    int generator_fd;
};

// The control loop, as include/telemetry.h describes it.
struct LoopStats {
    uint64_t steps = 0, step_ns = 0, interval_ns = 0, action_latency_ns = 0;
    uint64_t overrun_ns = 0, worst_overrun_ns = 0, late_steps = 0;
};

// Writes one region. `collect` may be called from any thread; a background thread keeps the region
// and its heartbeat fresh for other readers when nobody asks.
class Collector {
  public:
    explicit Collector(CollectorSources sources);
    ~Collector();
    uint64_t collect(bool reset_peaks);
    // Makes every counter start again at zero; call it while no packet is under way.
    void rebase();
    // What waits anywhere in the network, the hosts' own queues included.
    uint64_t total_backlog_bytes();
    void run_every(uint64_t period_ns);
    void stop();
    void set_rates(const uint64_t *rates_bps);
    // Has the traffic generator sample its hosts just before the end of an interval. It samples
    // every 4 ms anyway: intervals of 10 ms would see 8 ms of traffic or 12.
    void announce_deadline(uint64_t deadline_ns);
    // What the next snapshot says of the control loop.
    void note_action(uint64_t acknowledged_ns);
    void note_deadline(uint64_t deadline_ns, uint64_t overrun_ns);
    std::string error() const;

  private:
    void collect_port_queues();
    void collect_map(bool reset_peaks);
    void collect_hosts();
    void collect_host_queues();
    void loop(uint64_t period_ns);
    void publish(uint64_t began_ns);
    void gather(bool reset_peaks);
    void subtract_base();
    void count_step(uint64_t began_ns);

    size_t n_ports_, n_hosts_;
    int queue_program_fd_;
    std::vector<size_t> rx_slots_;
    Mapping region_, queue_map_;
    std::span<const dcgym_queue> queues_;
    std::unique_ptr<Mapping> port_map_, generator_;
    dcgym_telemetry_header *header_;
    dcgym_telemetry_port *ports_;
    dcgym_telemetry_host *hosts_;
    std::vector<dcgym_telemetry_port> staged_ports_;
    std::vector<dcgym_telemetry_host> staged_hosts_;
    // What the counters that nobody can set back stood at when the episode began.
    std::vector<dcgym_telemetry_port> base_ports_;
    std::vector<dcgym_telemetry_host> base_hosts_;
    std::vector<uint64_t> rates_bps_;
    uint64_t source_ns_ = 0;
    LoopStats loop_;
    uint64_t step_began_ns_ = 0, deadline_ns_ = 0;
    mutable std::mutex mutex_;
    std::mutex wake_mutex_;
    std::condition_variable wake_;
    bool stopping_ = false;
    std::string error_;
    std::thread thread_;
};

} // namespace dcgym
