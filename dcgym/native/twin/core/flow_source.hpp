// SPDX-License-Identifier: Apache-2.0
// Which flows arrive, when, and what they ask for: nothing that is done to them matters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrivals.hpp"
#include "correlation.hpp"
#include "distribution.hpp"
#include "event_queue.hpp"
#include "random.hpp"

namespace dcgym::twin {

constexpr size_t max_stages = 8;

struct StageConfig {
    uint8_t resource; // its number
    Distribution time;
    CorrelationConfig correlation;
};

struct FlowApplication {
    double rate_per_s;
    std::vector<StageConfig> stages;
};

struct FlowWorkload {
    std::vector<FlowApplication> applications;
    ArrivalsConfig arrivals;
};

struct DrawnFlow {
    Splitmix random; // the flow's own stream: its course does not disturb the others'
    uint64_t hash;   // of the five-tuple
    uint64_t number; // in order of arrival
    int64_t arrival_ns;
    std::array<int64_t, max_stages> demand_ns;
    uint16_t application;
};

class FlowSource {
  public:
    // The streams of random numbers of one environment.
    enum Stream : uint64_t {
        arrival_stream,
        flow_stream,
        balancer_stream,
        probe_stream,
        user_stream,
        service_stream,
        process_stream,
        message_stream,
        moving_stream,
    };

    FlowSource() = default;
    // Arrivals of applications are events of the owners from 0 on, users those from first_user on.
    FlowSource(const FlowWorkload &workload, uint64_t seed, EventQueue::Owner modulation_owner,
               EventQueue::Owner first_user);

    void begin(EventQueue &queue);
    // Which application has sent at an event of an owner from 0 on, its next arrival scheduled.
    size_t come(EventQueue::Owner owner, int64_t now_ns, EventQueue &queue);
    // The same of a user, whose next flow waits for the end of this one.
    size_t ask(uint32_t user) { return pick(users_[user].uniform()); }
    // The user whose flow has come to its end thinks, and sends the next.
    void ask_again(uint32_t user, int64_t end_ns, EventQueue &queue);
    void modulate(EventQueue &queue);
    void change_rate(uint32_t app, double factor, int64_t now_ns, EventQueue &queue);
    void stop(EventQueue &queue);
    DrawnFlow draw(size_t app, int64_t now_ns);

    bool has_ended() const { return has_ended_; } // no flow comes any more
    uint64_t drawn() const { return drawn_; }

  private:
    EventQueue::Owner arrival_owner(size_t app) const {
        return static_cast<EventQueue::Owner>(app);
    }
    EventQueue::Owner user_owner(uint32_t user) const { return first_user_ + user; }
    void begin_correlations();
    int64_t gap_ns(size_t app);
    double rate_per_ns() const;  // of all applications
    size_t pick(double u) const; // an application by its share of that rate
    void plan_arrival(EventQueue &queue);

    const FlowWorkload *workload_ = nullptr;
    uint64_t seed_ = 0;
    EventQueue::Owner modulation_owner_ = 0, first_user_ = 0;
    std::vector<double> rate_factor_;
    std::vector<Xoshiro> arrivals_;         // one stream per application
    ArrivalProcess process_;                // in their place, if arrivals are not plain
    std::vector<Splitmix> users_;           // a stream each
    std::vector<Correlation> correlations_; // by application and stage; none if there are none
    uint64_t drawn_ = 0;
    bool has_ended_ = false;
};

} // namespace dcgym::twin
