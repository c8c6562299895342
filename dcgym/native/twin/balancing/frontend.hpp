// SPDX-License-Identifier: Apache-2.0
// A virtual address at a balancer: its pool and rule, and the features that it collects on the way;
// and the balancer's flow table, which all its addresses share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "balancing.h"
#include "alias.h"
#include "delay_tree.hpp"
#include "flow.hpp"
#include "prequal.hpp"
#include "core/reducers.hpp"

namespace dcgym::twin::balancing {

struct ServerFeatures {
    CachedReservoir duration;
    CachedReservoir completion;
    dcgym_reservoir handshake{};
    uint64_t packets = 0;
    uint64_t flows = 0;
    uint64_t completed = 0;
};

// What a poll of a server found, and when its answer arrives.
struct Probe {
    int64_t time_ns = -1;
    int64_t busy = 0;
    int64_t queue = 0;
    int64_t answer_ns = 0;
    int64_t answered = 0;
    int64_t errors = 0;
};

class FlowTable {
  public:
    explicit FlowTable(const Config &config)
        : ways_(config.flow_table_ways), occupied_(config.flow_table_buckets, 0) {}

    // Whether there was an entry left for the flow, which then has it.
    bool take(const DrawnFlow &flow) {
        uint8_t &entries = occupied_[bucket(flow)];
        const bool has_room = entries < ways_;
        entries += has_room;
        return has_room;
    }
    void give_back(const DrawnFlow &flow) { occupied_[bucket(flow)]--; }
    void clear() { std::fill(occupied_.begin(), occupied_.end(), 0); }

  private:
    size_t bucket(const DrawnFlow &flow) const {
        return static_cast<uint32_t>(flow.hash) & (occupied_.size() - 1);
    }

    uint32_t ways_;
    std::vector<uint8_t> occupied_; // entries in use of each bucket
};

class Frontend {
  public:
    Frontend(const Config &config, uint64_t seed);

    void set_rule(uint32_t rule);
    // Weights of awcmp, weighted and weighted2, by server number.
    void set_weights(const double *weights);
    // The servers that take new flows, in order of their numbers.
    void set_pool(const std::vector<uint16_t> &servers);
    bool has(uint16_t server) const { return position_[server] < pool_.size(); }
    // Forgets flows and features, as a process that starts anew.
    void restart();

    bool covert() const { return dcgym_is_charon(rule_); }
    uint32_t rule() const { return rule_; }
    double weight(uint16_t server) const;
    const std::vector<uint16_t> &pool() const { return pool_; }
    dcgym_pool_view pool_view() const;
    uint16_t choose(uint64_t hash, int64_t now_ns);
    // Whether SYN-ACKs pass it, with their servers' loads.
    bool takes_reports() const { return covert() || rule_ == DCGYM_RULE_C3_RANK; }
    void note_idle(uint16_t server) { dcgym_note_idle(&idle_, &heard_[server]); }
    uint16_t fallback(uint64_t hash) const;       // of a flow that nothing remembers
    uint32_t version() const { return version_; } // above 0; rises when a fallback may differ
    __u64 *random() { return &random_; }

    // Counts and features, in the order of a flow's life.
    void new_flow(const Flow &flow, int64_t now_ns);
    void placed(Flow &flow);
    void report(const Flow &flow, int64_t now_ns);
    void connected(Flow &flow, int64_t now_ns);
    void packet(const Flow &flow, int64_t now_ns);
    void ended(const Flow &flow, int64_t now_ns);
    void forget(Flow &flow); // whose entry is gone

    // Asks a server, whose answer arrives later.
    void ask(uint16_t server, const Probe &found);
    // What is known of a server from its last answer.
    const Probe &probe(uint16_t server, int64_t now_ns) const;

    void publish(dcgym_lb_region &region, int64_t now_ns) const;

    // By server: flows in the state CONN, and of those before it as many as may count.
    const std::vector<uint32_t> &ongoing() const { return ongoing_; }

    bool up = true;
    Prequal prequal;
    std::vector<ServerFeatures> features;
    CachedReservoir interarrival;
    uint64_t syns = 0;
    uint64_t untracked = 0;
    uint64_t timeouts = 0;

  private:
    void rebuild();
    void rebuild_tree();
    void count(uint16_t server, int more);
    void fill(dcgym_lb_snapshot &snapshot, uint64_t time_ns) const;
    void fill(dcgym_lb_pool &pool, uint64_t time_ns) const;

    const Config &config_;
    std::vector<uint32_t> ongoing_;
    __u64 random_;
    Splitmix sampling_;
    uint32_t turn_ = 0;
    uint32_t half_open_ = 0; // flows that count and are not in the state CONN yet
    uint32_t rule_ = DCGYM_RULE_WEIGHTED;
    uint32_t version_ = 1;
    int64_t last_syn_ns_ = -1;
    std::vector<Probe> answered_, asked_;
    std::vector<double> configured_, learned_; // weights by server, the largest being 1
    std::vector<uint16_t> pool_;
    // Columns of the pool, readable up to a multiple of the rules' stride.
    std::vector<uint16_t> pool_server_;
    std::vector<double> pool_ratio_;
    std::vector<uint16_t> position_; // in the pool, by server; the pool's size: not in it
    DelayTree tree_;                 // of the rules that look for the least delay, else empty
    std::vector<uint32_t> pool_weight_;
    std::vector<dcgym_alias> pool_alias_;
    std::vector<dcgym_score> score_;
    std::vector<dcgym_turn> turns_;
    __u64 clock_ = 0;                // of these
    std::vector<dcgym_heard> heard_; // by server
    dcgym_idle_queue idle_{};
    dcgym_met met_{};
    const dcgym_prequal_places places_;
    std::vector<__u64> members_; // set of the servers in the pool
};

} // namespace dcgym::twin::balancing
