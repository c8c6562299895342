// SPDX-License-Identifier: Apache-2.0
// A server: a CPU under blocked processor sharing (FIFO is the case slots = workers) and an I/O
// device under processor sharing (Yao et al., appendix C.1, equation 42).
#pragma once

#include <cstdint>
#include <vector>

#include "flow.hpp"

namespace dcgym::simulation {

// Jobs that are served together, all at one rate. In virtual time, which runs at that rate, a job
// ends its demand after its beginning, whatever joins or leaves meanwhile.
class SharedResource {
  public:
    void clear() { *this = SharedResource(); }
    size_t size() const { return jobs_.size(); }
    const auto &jobs() const { return jobs_; }

    void set_rate(int64_t now_ns, double rate);
    // Returns the job's end in virtual time.
    double add(int64_t now_ns, int64_t demand_ns, uint64_t number, FlowId flow);
    // Removes the job that ends first; its end is now.
    FlowId finish_first(int64_t now_ns);
    // When the first job ends, if nothing changes; there must be one.
    int64_t first_end_ns() const;
    // Demand left of a job that ends at this virtual time, and of all jobs.
    double left(int64_t now_ns, double finish) const;
    double all_left(int64_t now_ns) const;

  private:
    struct Job {
        double finish;
        uint64_t number; // decides between equal ends
        FlowId flow;

        bool operator<(const Job &other) const { // the heap's top is the first to end
            return finish > other.finish || (finish == other.finish && number > other.number);
        }
    };

    double virtual_at(int64_t now_ns) const {
        return virtual_ + rate_ * static_cast<double>(now_ns - since_ns_);
    }

    std::vector<Job> jobs_;
    double virtual_ = 0; // as of since_ns_
    double rate_ = 0;    // of virtual time; 0 without jobs
    double finish_sum_ = 0;
    int64_t since_ns_ = 0;
};

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

} // namespace dcgym::simulation
