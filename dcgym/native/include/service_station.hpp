// SPDX-License-Identifier: Apache-2.0
// A server's resources as the compiled twin has them.
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

struct ServiceStage {
    int64_t demand_ns = 0; // at speed 1, unshared
    uint32_t resource = 0; // its number at the server
};

struct StationResource {
    static constexpr uint32_t no_limit = 0xffffffff;

    ResourceConfig config;     // at least as many slots as workers
    uint32_t limit = no_limit; // of the jobs here, those that wait included; not of the first one
};

// 1 to max_resources of them. Speed and co-located load are about the first, the processors.
using StationConfig = std::vector<StationResource>;

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
        bool refused; // by a resource at its limit, perhaps after some of its stages
    };

    explicit ServiceStation(const StationConfig &config) {
        for (const StationResource &resource : config)
            places_.push_back({resource, {}, {}});
    }

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
        for (Place *next = first_to_end(); end_ns(*next) <= now_ns; next = first_to_end()) {
            clock_ns_ = end_ns(*next);
            end_stage(clock_ns_, next->jobs);
        }
        clock_ns_ = std::max(clock_ns_, now_ns);
    }

    // When the next stage ends, if nothing comes; kNever without a job.
    int64_t next_ns() const {
        int64_t next_ns = kNever;
        for (const Place &place : places_)
            next_ns = std::min(next_ns, end_ns(place));
        return next_ns;
    }

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

    // Jobs that wait for the first resource, that it serves, and that are at the others.
    uint32_t waiting() const { return static_cast<uint32_t>(places_.front().waiting.size()); }
    uint32_t on_first() const { return static_cast<uint32_t>(places_.front().jobs.size()); }
    uint32_t on_later() const {
        size_t n = 0;
        for (size_t i = 1; i < places_.size(); i++)
            n += places_[i].here();
        return static_cast<uint32_t>(n);
    }

  private:
    // A resource with its jobs.
    struct Place {
        StationResource resource;
        SharedResource jobs;
        std::deque<uint32_t> waiting;

        size_t here() const { return jobs.size() + waiting.size(); }
        bool has_slot() const { return jobs.size() < resource.config.slots; }
    };
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
            return leave(now_ns, id, false);
        const size_t number = job.demand[job.stage].resource;
        Place &place = places_[number];
        // The first has its owner's limit, the backlog, which a job that is here has passed.
        if (number > 0 && place.here() >= place.resource.limit)
            return leave(now_ns, id, true);
        // Behind those who wait, even where a slot has just come free: it is theirs.
        if (!place.waiting.empty() || !place.has_slot())
            place.waiting.push_back(id);
        else
            begin_service(now_ns, id, place.jobs);
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
        for (Place &place : places_)
            while (!place.waiting.empty() && place.has_slot()) {
                begin_service(now_ns, place.waiting.front(), place.jobs);
                place.waiting.pop_front();
            }
        update_rates(now_ns);
    }

    void leave(int64_t now_ns, uint32_t id, bool refused) {
        const int64_t served_ns = jobs_[id].served_ns < 0 ? now_ns : jobs_[id].served_ns;
        ended_.push_back({jobs_[id].ticket, served_ns, now_ns, refused});
        free_.push_back(id);
    }

    void update_rates(int64_t now_ns) {
        for (Place &place : places_) {
            const ResourceConfig &config = place.resource.config;
            const size_t n = place.jobs.size();
            const bool is_first = &place == &places_.front();
            place.jobs.set_rate(now_ns,
                                is_first ? config.rate(n, factor_, colocated_) : config.rate(n));
        }
    }

    // Of equal ends, that of the resource with the lower number.
    Place *first_to_end() {
        return &*std::min_element(
            places_.begin(), places_.end(),
            [this](const Place &a, const Place &b) { return end_ns(a) < end_ns(b); });
    }
    int64_t end_ns(const Place &place) const {
        return place.jobs.size() == 0 ? kNever : std::max(clock_ns_, place.jobs.first_end_ns());
    }

    std::vector<Place> places_;
    std::vector<Job> jobs_;
    std::vector<uint32_t> free_;
    std::vector<Ended> ended_;
    int64_t clock_ns_ = 0;
    uint64_t arrived_ = 0;
    double factor_ = 1;
    double colocated_ = 0;
};

} // namespace dcgym
