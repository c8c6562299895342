// SPDX-License-Identifier: Apache-2.0
// A server: a CPU under blocked processor sharing (FIFO is the case slots = workers) and an I/O
// device under processor sharing (Yao et al., appendix C.1, equation 42).
#pragma once

#include <cstdint>

#include "flow.hpp"
#include "shared_resource.hpp"

namespace dcgym::twin::balancing {

struct Server {
    const ServerConfig *config = nullptr;
    SharedResource cpu;
    SharedResource io;
    FlowId first_waiting = no_flow;
    FlowId last_waiting = no_flow;
    uint32_t waiting = 0;
    uint32_t handshaking = 0; // accepted, the request is still to come
    uint32_t epoch = 0;       // grows when the server is removed, with its flows
    bool up = false;
    bool eligible = false; // takes new flows
    double factor = 1;     // of its first speed
    double colocated = 0;  // other CPU-bound processes
    // Demand of the flows placed here that no resource is serving yet, later stages included.
    int64_t cpu_pending_ns = 0;
    int64_t io_pending_ns = 0;
    double mean_service_ns = 0; // exponentially weighted; 0 before the first
    // Integrals over time since averages began.
    int64_t since_ns = 0;
    int64_t queue_time_ns = 0;
    int64_t busy_time_ns = 0;
    uint64_t flows = 0;
    uint64_t completed = 0;

    uint32_t queue() const { return waiting + static_cast<uint32_t>(cpu.size() + io.size()); }
    uint32_t busy() const {
        const auto n = static_cast<uint32_t>(cpu.size());
        return n < config->workers ? n : config->workers;
    }
    // A newcomer is turned away where all slots and the whole backlog are taken.
    bool full(uint32_t backlog) const {
        return handshaking + waiting + cpu.size() >= config->slots + static_cast<size_t>(backlog);
    }

    void clear(int64_t now_ns);
    void integrate(int64_t now_ns);
    // Must follow every change of the jobs, the speed or the co-located load.
    void update_rates(int64_t now_ns);
    void enqueue(FlowStore &flows, FlowId id);
    FlowId dequeue(FlowStore &flows);

    // CPU seconds a second for flows when all workers are busy.
    double capacity() const;
    // Time to do all that is placed here and more, by the resources' full speed.
    double remaining_ns(int64_t now_ns, int64_t more_cpu_ns, int64_t more_io_ns) const;
    // Report of a Charon server: flows a tick, as a score (rules.h).
    uint64_t reported_speed() const;
    void note_service(int64_t service_ns);
};

} // namespace dcgym::twin::balancing
