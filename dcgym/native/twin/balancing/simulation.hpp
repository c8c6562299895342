// SPDX-License-Identifier: Apache-2.0
// One environment: clients, an edge that spreads flows, balancers, servers, and the clock.
//
// A flow's life, one way taking a uniform latency: SYN to a balancer, which places it; SYN to the
// server, which accepts it or turns it away; SYN-ACK to the client (through the balancer with
// Charon); request through the balancer to the server; the stages; the response to the client,
// whose last packet takes the flow out of the balancer's table.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "frontend.hpp"
#include "config.hpp"
#include "core/event_queue.hpp"
#include "core/flow_source.hpp"
#include "flow.hpp"
#include "messages.hpp"
#include "server.hpp"
#include "statistics.hpp"

namespace dcgym::twin::balancing {

// Other processes that wander between servers.
struct MovingLoad {
    const ScheduledChange *change;
    __u64 random; // state of its draws, by which servers follow on each other
    uint32_t at;  // position in the change's targets
};

class Simulation {
  public:
    explicit Simulation(std::shared_ptr<const Config> config);

    void reset(uint64_t seed);
    void advance(int64_t until_ns, Interrupt &call);
    // Serves the flows that have arrived to their end, until a time at most; no other arrives
    // before the next reset. Averages over time are those of the moment before.
    void drain(int64_t until_ns, Interrupt &call);
    bool drained() const { return drained_; }
    // From now on each new flow waits for `assign`; none arrives after `most` since the reset, 0
    // for no end. Follows a reset. Changes count from the first flow, which is the first thing that
    // anybody sees. `advance` then ends where a flow waits and all else of that time has happened,
    // or where the last flow that comes is done.
    void hold_flows(uint64_t most);
    bool holds() const { return holds_; }
    // Puts the flow that has waited longest on a server; no_server: on that of the balancer's rule.
    void assign(uint16_t server, Interrupt &call);
    // The flow that waits; nullptr where none does.
    const Flow *waiting() const { return held_.empty() ? nullptr : &flows_[held_.front()]; }
    // Time integral of the flows under way, of those runs, in flows times ns.
    int64_t flow_time_ns() const { return flow_time_ns_; }
    // Work that waits at a server, on its way to it or for a later stage; and time that the work in
    // service takes.
    int64_t waiting_ns(size_t server) const;
    double in_service_ns(size_t server) const;
    int64_t demand_ns(const Flow &flow) const; // of all stages

    // Which servers may take new flows, a flag each; what events took away stays away.
    void set_in_service(const uint8_t *flags);

    int64_t now_ns() const { return now_ns_; }
    int64_t begun_ns() const { return begun_ns_; } // when changes count from; -1 if not known yet
    uint64_t events() const { return events_; }
    std::vector<Frontend> &frontends() { return frontends_; }
    const std::vector<Server> &servers() const { return servers_; }
    // Of each server, as of the last call of integrate.
    const std::vector<ServerTotals> &totals() const { return totals_; }
    // Brings the integrals over time up to now.
    void integrate();
    const Statistics &statistics() const { return statistics_; }
    const MessageCounts &messages() const { return counts_; }
    Records take_records();
    Records under_way_records() const; // of flows whose end is not known yet, which is now
    int64_t measured_ns() const;
    bool begun() const { return !frontends_.empty(); }
    size_t in_flight() const;                  // flows since the warm-up whose end is not known yet
    size_t under_way() const { return open_; } // flows whose end is not known yet
    uint32_t assigned(size_t server) const { return assigned_[server]; }
    // Flows that have completed since the reset, and the sum of their completion times.
    int64_t ended() const { return ended_; }
    int64_t ended_after_ns() const { return ended_after_ns_; }
    double remaining_ns(size_t server) const;
    // Adds each flow's part of remaining_ns to out[front end * servers + server].
    void remaining_by_balancer(double *out) const;

  private:
    // Events that are not a flow's have the first owners; flows come after them.
    EventQueue::Owner resource_owner(size_t server, size_t resource) const {
        return first_resource_ + static_cast<uint32_t>(server * max_resources + resource);
    }
    EventQueue::Owner owner(FlowId id) const { return first_flow_ + id; }

    // `advance` where flows wait.
    void run_to_choice(int64_t until_ns, Interrupt &call);
    void handle(const EventQueue::Event &event);
    void handle_flow(FlowId id);

    // Traffic.
    void arrive(size_t app, uint32_t user);
    void ask_again(Flow &flow, int64_t end_ns);
    uint16_t edge(const Flow &flow) const;
    void release(Flow &flow); // its entry of the flow table, if it has one
    void send(FlowId id, Phase phase, int hops);
    int64_t hop_ns(Flow &flow);

    // The flow's way, one function per phase.
    void syn_at_balancer(FlowId id);
    bool waits(const Flow &flow) const;
    void enter(FlowId id, uint16_t server);
    void syn_at_server(FlowId id);
    void report_at_balancer(FlowId id);
    void data_at_balancer(FlowId id);
    void data_at_server(FlowId id);
    void packet_at_balancer(FlowId id);
    void end_at_balancer(FlowId id);
    void entry_timeout(FlowId id);

    uint16_t place(Frontend &frontend, Flow &flow);
    template <typename Cost> uint16_t cheapest(Frontend &frontend, const Cost &cost);
    uint16_t oracle(Frontend &frontend, const Flow &flow, bool two);
    uint16_t earliest_finish(Frontend &frontend, const Flow &flow);
    // When the first worker has nothing left, in time of one worker at full speed.
    double worker_free_ns(const Server &server);
    // Server that a packet of the flow reaches by now; may move the flow to another balancer.
    uint16_t route(Flow &flow);
    bool consistent(FlowId id);

    // Rules that need messages, response times or reports.
    uint16_t informed(Frontend &frontend, const Flow &flow);
    void post(Message message);
    void schedule(const Message &message);
    void deliver();
    void send_probes(uint16_t frontend);
    void probe_at_server(const Message &probe);
    void answer_at_balancer(const Message &answer);
    void register_idle(uint16_t server);
    bool fails_fast(Flow &flow);
    void begin_flapping(uint32_t server, double period_s);
    void flap(Message next);

    // Servers.
    void begin_stage(FlowId id);
    void refuse(FlowId id);
    void answer(FlowId id);
    void begin_service(FlowId id, ServerResource &resource);
    void end_stage(size_t server, size_t resource);
    void leave_server(FlowId id);
    // Fills free slots and finds out when the next stage ends; must follow every change.
    void settle(size_t server);
    void retime(EventQueue::Owner owner, const SharedResource &resource);
    void next_packet(FlowId id);
    bool gone(const Flow &flow) const; // the server that the flow was placed on
    void unplace(const Flow &flow);
    void count_demand(const Flow &flow, int sign);
    Demand demand(const Flow &flow) const;
    double left_ns(const Flow &flow) const; // at its server's full speed

    // Ends.
    void note_end(Flow &flow, Outcome outcome, int64_t end_ns);
    bool is_under_way(const Flow &flow) const;
    void add_record(Records &to, const Flow &flow, int64_t end_ns) const;
    void forget(FlowId id);
    void fail(FlowId id);

    // Scheduled changes.
    void apply(const ScheduledChange &change);
    void apply_to_server(const ScheduledChange &change, uint32_t server);
    void remove_server(uint32_t server);
    void fail_balancer(uint32_t balancer);
    void begin_moving(const ScheduledChange &change);
    void move(Message next);
    void visit(const MovingLoad &load, double processes);
    void refresh_pools();
    void plan_change();
    void probe();
    void sample_fairness();
    void begin_averages();

    std::shared_ptr<const Config> config_;
    uint32_t first_resource_, change_owner_, probe_owner_, fairness_owner_, averages_owner_;
    uint32_t modulation_owner_, message_owner_, first_user_, first_flow_;

    int64_t now_ns_ = 0;
    uint64_t events_ = 0;
    uint64_t seed_ = 0;
    size_t next_change_ = 0;
    int64_t begun_ns_ = 0;
    EventQueue queue_;
    FlowStore flows_;
    std::vector<Server> servers_;
    std::vector<uint32_t> assigned_;  // flows placed on each server and not yet done there
    std::vector<Frontend> frontends_; // by front end
    std::vector<FlowTable> tables_;   // by balancer
    FlowSource source_;
    size_t open_ = 0;
    bool drained_ = false;
    bool holds_ = false;
    std::deque<FlowId> held_; // flows that wait for `assign`, in order of arrival
    uint64_t most_flows_ = 0; // that arrive; 0: no end
    int64_t flow_time_ns_ = 0;
    int64_t measured_until_ns_ = 0;    // if drained
    std::vector<ServerTotals> totals_; // as of the last call of integrate
    Splitmix probing_;
    Splitmix messaging_;
    MessageQueue messages_;
    MessageCounts counts_;
    std::vector<uint16_t> listeners_;
    std::vector<MovingLoad> moving_;
    int64_t ended_ = 0;
    int64_t ended_after_ns_ = 0;
    Statistics statistics_;
    Records records_;
    std::vector<double> scratch_;
};

// The server of the least cost, one of them at random.
template <typename Cost> uint16_t Simulation::cheapest(Frontend &frontend, const Cost &cost) {
    double least = 0;
    uint32_t ties = 0;
    uint16_t best = no_server;
    for (const uint16_t server : frontend.pool()) {
        const double found = cost(server);
        if (ties == 0 || found < least) {
            least = found;
            best = server;
            ties = 1;
        } else if (found == least && dcgym_below(frontend.random(), ++ties) == 0) {
            best = server;
        }
    }
    return best;
}

} // namespace dcgym::twin::balancing
