// SPDX-License-Identifier: Apache-2.0
// One simulation: requests of one message each, a balancer that chooses server and device, devices,
// and agents whose reports take time and may be lost. Networks are never the bottleneck here: both
// ways cost a constant latency, so that requests are seen at the devices' times.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "alias.h"
#include "config.hpp"
#include "connection_cells.hpp"
#include "core/random.hpp"
#include "departures.hpp"
#include "device.hpp"
#include "fifo.hpp"
#include "interrupt.hpp"
#include "rules.h"

namespace dcgym::twin::accelerators {

enum class Outcome : uint32_t {
#define DCGYM_ROW(name) name,
#include "tables/request_outcomes.h"
    under_way,
};

struct Record {
    int64_t arrival_ns;
    int64_t end_ns;
    uint64_t request;
    uint16_t application;
    uint16_t server;
    uint16_t device;
    uint16_t outcome;
};

// What has happened since the last observation.
struct Interval {
    uint64_t arrivals = 0, completed = 0, dropped = 0, lost = 0;
    uint64_t reports = 0, reports_lost = 0;
    // Of a table of cells: connections that began in one in use, and that lost theirs.
    uint64_t inherited = 0, pcc_violations = 0;
    int64_t since_ns = 0;
    std::vector<int64_t> latencies_ns;
};

class Simulation {
  public:
    explicit Simulation(std::shared_ptr<const Config> config);

    void reset(uint64_t seed, double rate_per_s);
    // Below 0: stays as it is.
    void set_rules(int server_rule, int device_rule);
    // Of each device of each server; 0 or more.
    void set_weights(const double *weights);
    // Throws Interrupted, between two events, where the call is to end.
    void advance(int64_t until_ns, Interrupt &call);

    int64_t now_ns() const { return now_ns_; }
    // Brings the integrals over time up to now.
    void integrate();
    Interval &interval() { return interval_; }
    void begin_interval();
    const std::vector<Device> &device_states() const { return devices_; }
    const std::vector<dcgym_device> &known() const { return known_; }
    bool is_present(size_t device) const {
        return present_[device / devices] >> device % devices & 1;
    }
    double share(size_t device) const; // of its server's weights
    std::vector<Record> take_records() { return std::exchange(records_, {}); }
    std::vector<Record> under_way() const; // requests that have not ended, which is now

  private:
    // A moment of an agent's window: time, and worker time in use until then.
    struct Sample {
        int64_t time_ns;
        int64_t busy_ns;
    };
    struct Report {
        uint32_t device = 0;
        uint16_t queue = 0;
        uint8_t load = 0;
        uint8_t is_busy = 0;
    };
    struct Agent {
        size_t first = 0;  // of its samples, which are a ring
        uint32_t next = 0; // the oldest of them
        uint32_t workers = 0;
    };
    // A device from a change on: arrivals come after a tick of the same time, the rest before.
    struct Moment {
        int64_t order = 0; // twice the time, and one more after an arrival
        int64_t busy_ns = 0;
        uint32_t in_service = 0;
        uint32_t queue = 0;

        int64_t busy_until(int64_t time_ns) const {
            return busy_ns + in_service * (time_ns - order / 2);
        }
    };
    // Of a group of servers whose agents report at the same time.
    struct Rounds {
        uint64_t passed = 0;
        uint64_t reports = 0; // in each
    };
    // Reports in a row that come at the same time.
    struct Batch {
        int64_t due_ns = 0;
        size_t reports = 0;
    };
    struct Second {
        int64_t at_ns = 0;
        uint32_t device = 0;
    };
    struct Ring {
        std::array<uint8_t, DCGYM_RING_SLOTS> slot{};
        uint32_t slots = 0;
    };

    // simulation.cpp
    void arrive();
    bool looks_at_reports() const;
    uint32_t choose(uint64_t hash);
    uint32_t place(Request &request, uint64_t hash);
    void leave(const Request &request, uint32_t device);
    InService serve(uint32_t device, const Request &request);
    void plan_others();
    void handle_other();
    void depart();
    void end(const Request &request, uint32_t device, Outcome outcome);
    Record record(const Request &request, uint32_t device, Outcome outcome) const;
    void change();
    void apply(const ScheduledChange &change, uint32_t device);
    void fail(uint32_t device);
    void build_pool();
    void build_rings();

    // agents.cpp
    void start_agents();
    bool has_device(size_t number) const;
    uint8_t sample(uint32_t number);
    void remember(uint32_t number, bool by_arrival);
    void look(uint32_t number);
    int64_t tick_ns() const;
    void tick();
    void send(uint32_t device, uint8_t load, bool is_busy);
    void deliver();
    void watch(uint32_t device, const Request &request);
    void end_busy();

    std::shared_ptr<const Config> config_;
    size_t servers_;
    int64_t now_ns_ = 0;
    uint64_t ticks_ = 0;
    uint32_t server_rule_ = DCGYM_RULE_ECMP, device_rule_ = DCGYM_DEVICE_RULE_SERVER_ONLY;
    RequestSource source_;
    Splitmix losses_;
    int64_t next_other_ns_ = 0; // of changes and agents
    size_t next_change_ = 0;
    Departures departures_;
    ConnectionCells cells_;
    std::vector<Agent> agents_; // periodic ones: server * `devices` + device
    std::vector<Sample> samples_;
    std::vector<Fifo<Moment>> history_; // the same, where reports are made when somebody looks
    std::vector<Rounds> rounds_;
    bool is_lazy_ = false;
    int64_t next_tick_ns_ = 0;
    int64_t delivered_ns_ = -1; // reports that were due by then have arrived
    Fifo<Report> reports_;
    Fifo<Batch> batches_;
    Fifo<Second> seconds_;
    std::vector<Device> devices_;     // server * `devices` + device
    std::vector<dcgym_device> known_; // the same
    std::vector<double> weights_;     // the same
    std::vector<uint32_t> slots_;     // the same: what of a ring each has
    std::vector<uint8_t> present_;    // bit a device, by server
    std::vector<dcgym_device_turns> turns_;
    std::vector<Ring> rings_;
    std::vector<uint32_t> ring_of_; // by server
    std::array<uint8_t, 1 << DCGYM_DEVICES> by_bits_{};
    // The first level (rules.h).
    uint32_t pool_n_ = 0;
    std::vector<uint16_t> pool_;
    std::vector<uint32_t> pool_weight_;
    std::vector<dcgym_alias> pool_alias_;
    std::vector<uint32_t> ongoing_;
    std::vector<dcgym_turn> server_turns_;
    __u64 random_ = 0, clock_ = 0;
    __u32 turn_ = 0;
    Interval interval_;
    std::vector<Record> records_;
};

} // namespace dcgym::twin::accelerators
