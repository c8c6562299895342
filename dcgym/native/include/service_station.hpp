// SPDX-License-Identifier: Apache-2.0
// A server's CPU and I/O device as the compiled twin has them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "shared_resource.hpp"

namespace dcgym {

enum class ServiceResource : uint32_t {
#define DCGYM_ROW(symbol, name) name,
#include "tables/http_resources.h"
};

struct ServiceStage {
    int64_t demand_ns = 0; // at speed 1, unshared
    ServiceResource resource = ServiceResource::cpu;
};

struct StationConfig {
    ResourceConfig cpu; // at least as many slots as workers
    ResourceConfig io;
};

// Serves jobs in its own time, which its owner moves on: every stage begins and ends at the exact
// moment the discipline says, however late the owner looks.
class ServiceStation {
  public:
    static constexpr size_t kMostStages = 8;
    static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

    struct Ended {
        uint64_t ticket;
        int64_t served_ns; // when its first stage began
        int64_t end_ns;
    };

    explicit ServiceStation(const StationConfig &config) : config_(config) {}

    // A job comes; the station must have been advanced to now.
    void arrive(int64_t now_ns, uint64_t ticket, std::span<const ServiceStage> stages) {
        const uint32_t id = take_id();
        Job &job = jobs_[id];
        job = {};
        job.ticket = ticket;
        job.number = arrived_++;
        job.stages = static_cast<uint32_t>(std::min(stages.size(), kMostStages));
        std::copy_n(stages.begin(), job.stages, job.demand.begin());
        begin_stage(now_ns, id);
        settle(now_ns);
    }

    // Ends what ends until now, in order of time.
    void advance(int64_t now_ns) {
        for (int64_t at_ns = next_ns(); at_ns <= now_ns; at_ns = next_ns()) {
            clock_ns_ = at_ns;
            end_stage(at_ns, cpu_end_ns() <= io_end_ns() ? cpu_ : io_);
        }
        clock_ns_ = std::max(clock_ns_, now_ns);
    }

    // When the next stage ends, if nothing comes; kNever without a job.
    int64_t next_ns() const { return std::min(cpu_end_ns(), io_end_ns()); }

    bool has_ended() const { return !ended_.empty(); }
    // The jobs that have ended since the last call.
    std::vector<Ended> take_ended() { return std::exchange(ended_, {}); }

    // The processors run at this times their first speed.
    void set_speed(int64_t now_ns, double factor) {
        factor_ = factor;
        update_rates(now_ns);
    }
    // So many CPU-bound processes share the processors with the jobs.
    void set_colocated(int64_t now_ns, double processes) {
        colocated_ = processes;
        update_rates(now_ns);
    }

    uint32_t waiting() const { return static_cast<uint32_t>(waiting_.size()); }
    uint32_t on_cpu() const { return static_cast<uint32_t>(cpu_.size()); }
    uint32_t on_io() const { return static_cast<uint32_t>(io_.size()); }

  private:
    struct Job {
        uint64_t ticket = 0;
        uint64_t number = 0;
        int64_t served_ns = -1;
        uint32_t stage = 0;
        uint32_t stages = 0;
        std::array<ServiceStage, kMostStages> demand{};
    };

    uint32_t take_id() {
        if (free_.empty()) {
            jobs_.emplace_back();
            return static_cast<uint32_t>(jobs_.size() - 1);
        }
        const uint32_t id = free_.back();
        free_.pop_back();
        return id;
    }

    void begin_stage(int64_t now_ns, uint32_t id) {
        const Job &job = jobs_[id];
        if (job.stage == job.stages)
            return leave(now_ns, id);
        // Behind those who wait, even where a slot has just come free: it is theirs.
        const bool on_cpu = job.demand[job.stage].resource == ServiceResource::cpu;
        if (on_cpu && (!waiting_.empty() || cpu_.size() >= config_.cpu.slots))
            waiting_.push_back(id);
        else
            begin_service(now_ns, id, on_cpu ? cpu_ : io_);
    }

    void begin_service(int64_t now_ns, uint32_t id, SharedResource &resource) {
        Job &job = jobs_[id];
        resource.add(now_ns, job.demand[job.stage].demand_ns, job.number, id);
        if (job.served_ns < 0)
            job.served_ns = now_ns;
    }

    void end_stage(int64_t now_ns, SharedResource &resource) {
        const uint32_t id = resource.finish_first(now_ns);
        ++jobs_[id].stage;
        begin_stage(now_ns, id);
        settle(now_ns);
    }

    void settle(int64_t now_ns) {
        while (!waiting_.empty() && cpu_.size() < config_.cpu.slots) {
            begin_service(now_ns, waiting_.front(), cpu_);
            waiting_.pop_front();
        }
        update_rates(now_ns);
    }

    void leave(int64_t now_ns, uint32_t id) {
        const int64_t served_ns = jobs_[id].served_ns < 0 ? now_ns : jobs_[id].served_ns;
        ended_.push_back({jobs_[id].ticket, served_ns, now_ns});
        free_.push_back(id);
    }

    void update_rates(int64_t now_ns) {
        cpu_.set_rate(now_ns, config_.cpu.rate(cpu_.size(), factor_, colocated_));
        io_.set_rate(now_ns, config_.io.rate(io_.size()));
    }

    int64_t cpu_end_ns() const { return end_ns(cpu_); }
    int64_t io_end_ns() const { return end_ns(io_); }
    int64_t end_ns(const SharedResource &resource) const {
        return resource.size() == 0 ? kNever : std::max(clock_ns_, resource.first_end_ns());
    }

    StationConfig config_;
    SharedResource cpu_;
    SharedResource io_;
    std::deque<uint32_t> waiting_;
    std::vector<Job> jobs_;
    std::vector<uint32_t> free_;
    std::vector<Ended> ended_;
    int64_t clock_ns_ = 0;
    uint64_t arrived_ = 0;
    double factor_ = 1;
    double colocated_ = 0;
};

} // namespace dcgym
