// SPDX-License-Identifier: Apache-2.0
// One network and its traffic in simulated time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "congestion/control.hpp"
#include "congestion/dcgym_agent.hpp"
#include "event_tree.hpp"
#include "flow.hpp"
#include "interrupt.hpp"
#include "places.hpp"
#include "port.hpp"
#include "core/random.hpp"

namespace dcgym::twin::packets {

constexpr uint32_t no_group = 0xffffffff;
constexpr uint32_t no_port = 0xffffffff;

// A flow of the plan (struct dcgym_generator_flow).
struct PlannedFlow {
    uint32_t src, dst, transport, port;
    int64_t start_ns, size_bytes, duration_ns, rate_bps, repetitions, gap_ns, after, group;
};

// A flow that ended (struct dcgym_generator_record).
struct FlowRecord {
    uint64_t sequence, id, repetition, src, dst, transport, outcome;
    uint64_t planned_start_ns, start_ns, end_ns, bytes, srtt_ns, min_rtt_ns, retransmits;
    uint64_t out_of_order, reorderings, spurious_retransmits;
};

struct HostCounters {
    uint64_t tx_bytes = 0, rx_bytes = 0, retransmits = 0;
};

// A segment that is lost, or marked, as often as it comes until times is 0.
struct ScriptedSegment {
    uint32_t flow, segment, times;
    bool is_marked;
};

enum class Outcome : uint8_t {
#define DCGYM_ROW(symbol, name, number, ...) name = number,
#include "tables/generator_outcomes.h"
};

struct NetworkConfig {
    uint32_t n_switches = 0, n_hosts = 0;
    uint32_t frame_bytes = 1514;       // of a full packet, on every link
    std::vector<PortConfig> ports;     // those of the switches, then one a host
    std::vector<uint32_t> port_switch; // whose each switch port is
    bool counts_matrix = false;
    bool pins_flows = false; // a flow keeps its ports when weights change
    uint32_t path_rule = DCGYM_PATH_ECMP;
    int64_t flowlet_gap_ns = 0; // of the rule letflow
    dcgym_plb_limits plb{};     // when senders give a flow another label; no rounds: never
    int64_t timer_late_ns = 0;  // mean of how late timers come; 0: never, and ticks begin with it
    // Of a full packet on the longest empty path, and on the slowest link.
    uint32_t base_rtt_us = 0, packet_ns = 0;
};

struct EpisodeConfig {
    uint64_t seed = 0;
    int64_t start_ns = 0;
    std::vector<PlannedFlow> flows;
    std::vector<std::string> congestion_control; // by host
    std::vector<MarkingRule> marking;            // by switch port
    std::vector<std::vector<uint32_t>> group_ports;
    std::vector<uint32_t> group_salts;
    std::vector<uint32_t> routes; // group of each switch and host
};

// Apart from its neighbours, which other threads may work on.
class alignas(64) Simulation {
  public:
    explicit Simulation(NetworkConfig config);

    void reset(const EpisodeConfig &episode);
    // Throws Interrupted, between two events, where the call is to end.
    void advance(int64_t until_ns, Interrupt &call);
    int64_t now_ns() const { return now_ns_; }
    // For those who advance many, whose memory is far away when their turn comes. In this order,
    // each while another one is advanced: each follows what the one before has fetched.
    void fetch_itself() const { fetch(this, sizeof(*this)); }
    void fetch_parts() const;
    void fetch_packets() const;

    // What is done to it from outside, now.
    void set_host_rates(const uint64_t *rates_bps);
    void set_port_rate(uint32_t port, uint64_t rate_bps);
    void set_port_up(uint32_t port, bool is_up);
    void set_port_loss(uint32_t port, double before, double after);
    void set_weights(uint32_t group, const double *weights);
    uint32_t add_group(uint32_t salt, const std::vector<uint32_t> &ports);
    void set_route(uint32_t node, uint32_t host, uint32_t group);
    void stop_traffic();
    // Datagrams of one size, handed to a host at given times; before the clock reaches them.
    void send_at(uint32_t src, uint32_t dst, uint32_t payload_bytes, std::vector<int64_t> at_ns);
    // What becomes of given segments of a flow in front of their receiver.
    void set_script(std::vector<ScriptedSegment> script) { script_ = std::move(script); }

    // What is seen from outside.
    Port &port(uint32_t number) {
        ports_[number].settle(now_ns_);
        return ports_[number];
    }
    uint32_t n_ports() const { return static_cast<uint32_t>(ports_.size()); }
    uint32_t n_switch_ports() const { return static_cast<uint32_t>(config_.port_switch.size()); }
    const NetworkConfig &config() const { return config_; }
    const HostCounters &host(uint32_t number) const { return hosts_[number]; }
    // The mean smoothed round trip of each host's TCP flows (0 where none has one), and its flows.
    void read_senders(uint64_t *srtt_ns, uint64_t *active) const;
    const std::vector<FlowRecord> &records() const { return records_; }
    const std::vector<uint64_t> &matrix() const { return matrix_; }
    bool is_finished() const { return exhausted_ == plan_.size() && !plan_.empty(); }
    uint64_t packet_hops() const { return packet_hops_; }
    uint64_t packets_in_network() const; // as the flows count them
    uint64_t packets_held() const;       // as the ports do
    std::vector<uint32_t> path(uint32_t src, uint32_t dst, uint32_t ports, bool is_udp,
                               uint32_t label) const;
    const Sender *sender_of(uint32_t flow) const;
    // Of the first flows of the plan, those that run dcgym_agent and have connected: what they
    // show, generation 0 where there is none; and what an agent wants of them, by the generation.
    void read_flows(dcgym_agent_flow *out, uint32_t count) const;
    void command_flows(const dcgym_agent_command *commands, uint32_t count, uint64_t lease_us);

  private:
    // forwarding.cpp
    void arrive(uint32_t port);
    void free_departed(uint32_t port);
    void receive_at_switch(const Packet &packet, uint32_t node);
    void receive_at_host(const Packet &packet);
    void follow_script(uint32_t slot, Packet packet);
    bool transmit(uint32_t host, const Packet &packet);
    bool enter(uint32_t port, const Packet &packet);
    void push(uint32_t port, const Packet &packet, uint8_t flags);
    void look_again(uint32_t port);
    void forget(const Packet &packet);
    bool is_lost(uint32_t probability);
    uint32_t next_port(const Packet &packet, uint32_t node);
    uint32_t pinned_port(Path &path, const FlowKey &key, uint32_t node, const Group &group,
                         bool begins);
    bool is_member(Pin &pin, const Group &group) const;

    // relabelling.cpp
    void watch_marks(uint32_t slot);
    void relabel_if_due(Flow &flow);
    void relabel_after_timeout(Flow &flow, bool is_first);
    void relabel(Flow &flow);

    // traffic.cpp
    void schedule_start(uint32_t id, uint64_t repetition, int64_t at_ns);
    void start_due();
    void launch(uint32_t id, uint64_t repetition, int64_t planned_ns);
    int64_t open_ns(int64_t planned_ns);
    int64_t opening_ns();
    void begin_tcp(Flow &flow, const PlannedFlow &plan);
    void end(uint32_t slot, Outcome outcome);
    void go_on(const Flow &flow);
    uint32_t take_slot();
    void give_back(uint32_t slot);
    void send_scripted();

    // timers.cpp
    void on_timer(uint32_t slot);
    void arm(uint32_t slot);
    void on_tcp_timers(uint32_t slot);
    void on_retransmit_timeout(uint32_t slot);
    void on_probe_timeout(uint32_t slot);
    void on_reorder_timeout(uint32_t slot);
    void send_syn(uint32_t slot);

    // udp.cpp
    void udp_begin(uint32_t slot);
    void udp_tick(uint32_t slot);
    void udp_send_due(Flow &flow, uint32_t slot);
    void udp_receive(uint32_t slot, const Packet &packet);
    uint64_t udp_sends_per_s(const Datagrams &flow) const;
    uint64_t datagram_bytes() const { return config_.frame_bytes - udp_header_bytes; }
    int64_t udp_next_ns(const Flow &flow, uint64_t ahead_bytes) const;

    // tcp_output.cpp
    void connected(uint32_t slot, const Packet &packet);
    void write(uint32_t slot);
    bool write_some(uint32_t slot, bool is_probe);
    void send_segments(uint32_t slot, uint32_t seq, uint32_t count, bool is_retransmission);
    void grow_window(Sender &sender, uint32_t count);
    void retransmit_lost(uint32_t slot);
    bool is_small_queue_full(Sender &sender, uint32_t segments, uint32_t factor) const;
    uint32_t packet_segments(const Sender &sender) const;
    bool is_pacing(uint32_t slot);
    void pace(Sender &sender, uint32_t payload_bytes);
    bool defers(Flow &flow, uint32_t room, uint32_t most, uint32_t head) const;
    void validate_cwnd(Sender &sender, bool is_limited);
    void set_timer(uint32_t slot, Timer timer, int64_t wait_ns);
    bool schedule_probe(uint32_t slot, bool advances);
    void rearm_retransmit(uint32_t slot);
    uint32_t segment_bytes(const Flow &flow, uint32_t seq, uint32_t count) const;

    // tcp_input.cpp
    struct Ack;
    void on_ack(uint32_t slot, const Packet &packet);
    void on_old_ack(uint32_t slot, Ack &ack);
    void take_sack(Sender &sender, Block block, Ack &ack);
    void take_blocks(Sender &sender, AckNote note, Ack &ack);
    void clean_window(Sender &sender, uint32_t upto, Ack &ack);
    void measure_rtt(Sender &sender, Ack &ack);
    void estimate_rtt(Sender &sender, int64_t rtt_us);
    void control(uint32_t slot, const Ack &ack);

    // tcp_rate.cpp
    void mark_rate(Sender &sender, uint32_t seq, uint32_t count);
    RateSample sample_rate(Sender &sender, const Ack &ack);

    // tcp_recovery.cpp
    void alert(uint32_t slot, Ack &ack);
    void advance_rack(Sender &sender, const Segment &segment, uint32_t seq);
    int64_t mark_lost(Sender &sender, bool &lost_again);
    bool is_overdue(const Sender &sender, const Segment &segment, uint32_t seq, int64_t window_ns,
                    int64_t &left_ns) const;
    void identify_loss(uint32_t slot, Ack &ack);
    void lose(Sender &sender, uint32_t seq);
    void leave_states(Sender &sender, const Ack &ack);
    void open(Sender &sender, const Ack &ack);
    void process_loss(Sender &sender, Ack &ack);
    int64_t reorder_window_ns(const Sender &sender) const;
    void begin_reduction(Sender &sender);
    void end_reduction(Sender &sender);
    void set_state(Sender &sender, CaState state);
    void enter_recovery(Sender &sender, bool echo);
    // Returns whether the data was not taken for lost before.
    bool enter_loss(Sender &sender);
    void keep_open(Sender &sender);
    void reduce_cwnd(Sender &sender, uint32_t acked, uint32_t losses, bool una_advanced);
    void answer_probe(uint32_t slot, const Ack &ack);

    // tcp_undo.cpp
    void begin_undo(Sender &sender);
    void note_retransmission(Sender &sender, uint32_t count);
    void note_duplicate(Sender &sender, Block block, Ack &ack);
    void undo_reduction(Sender &sender, bool unmarks);
    void undo_recovery(Sender &sender, const Ack &ack);
    bool undo_by_duplicates(Sender &sender);
    bool undo_loss(Sender &sender, const Ack &ack, bool is_spurious);
    bool undo_partial(Sender &sender, const Ack &ack);
    void check_reordering(Sender &sender, uint32_t seq);
    void adapt_reorder_window(Sender &sender, const Ack &ack);

    // tcp_receive.cpp
    void on_data(uint32_t slot, const Packet &packet);
    void hear_congestion(uint32_t slot, bool is_marked);
    void note_data(Receiver &receiver);
    void send_ack(uint32_t slot, uint32_t rcv_nxt);
    void write_note(Receiver &receiver, Packet &packet);
    void check_ack(uint32_t slot);
    void compress_ack(uint32_t slot);

    // TCP's time stamps count ms, as Linux' do; 0 says that there is none.
    uint32_t stamp_ms() const { return clock_.ms(now_ns_); }

    uint32_t leaf_of(uint32_t slot) const { return n_ports() + 2 + slot; }
    uint32_t starts_leaf() const { return n_ports(); }
    uint32_t script_leaf() const { return n_ports() + 1; }

    NetworkConfig config_;
    int64_t now_ns_ = 0, start_ns_ = 0;
    Splitmix random_, start_random_, timer_random_;
    Lateness lateness_;
    Clock clock_;
    EventTree tree_;
    std::vector<Port> ports_;
    std::vector<uint64_t> host_rates_bps_;
    std::vector<HostCounters> hosts_;
    std::vector<uint64_t> matrix_;
    uint64_t packet_hops_ = 0;

    std::vector<Group> groups_;
    std::vector<uint32_t> routes_;
    uint32_t routes_version_ = 1, tables_version_ = 1; // of routes; of these and weights
    uint64_t path_random_ = 0;

    Places<Flow> flows_; // references stay good while others begin
    std::vector<uint32_t> free_slots_, active_;
    std::vector<PlannedFlow> plan_;
    std::vector<Control> congestion_control_;
    std::vector<uint32_t> by_start_;
    size_t next_start_ = 0;
    struct Waiting {
        int64_t at_ns;
        uint64_t order;
        uint32_t id;
        uint64_t repetition;
        bool operator<(const Waiting &other) const {
            return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
        }
    };
    std::vector<Waiting> waiting_;
    uint64_t waiting_order_ = 0;
    // When the last flow was planned and opened, and how many before it were planned for then.
    int64_t burst_ns_ = -1, opened_ns_ = 0;
    uint32_t burst_flows_ = 0;
    std::vector<uint32_t> begun_; // slots of those that begin now
    std::vector<std::vector<uint32_t>> successors_;
    std::vector<FlowRecord> records_;
    size_t exhausted_ = 0;
    uint64_t udp_sends_per_s_ = 0;
    std::vector<ScriptedSegment> script_;
    std::vector<AckNote> notes_; // of acknowledgements on their way
    std::vector<uint32_t> free_notes_;
    std::vector<int64_t> script_ns_;
    size_t next_scripted_ = 0;
    uint32_t script_slot_ = 0, script_bytes_ = 0;
};

// What is learned from one acknowledgement.
struct Simulation::Ack {
    uint32_t prior_una = 0, prior_delivered = 0, prior_lost = 0, prior_in_flight = 0;
    uint32_t acked = 0;
    uint32_t echoed_ms = 0;  // time stamp that it brings back
    uint32_t prior_fack = 0; // the one after the highest that was selectively acknowledged
    uint32_t reordered = 0;  // lowest that came late, where is_reordered
    bool is_reordered = false, acked_original = false;
    bool advanced = false, echo = false, sacked = false, is_probe_duplicate = false;
    bool acked_retransmission = false, acked_data = false, lost_retransmission = false;
    int64_t first_acked_ns = -1, last_acked_ns = -1;
    int64_t first_sacked_ns = -1, last_sacked_ns = -1;
    int64_t rtt_us = -1; // for the congestion control
    // Of the segment sent last among those that it tells of.
    int64_t newest_sent_ns = -1;
    uint32_t newest_delivered = 0, newest_seq = 0;

    void note(const Segment &segment, uint32_t seq) {
        if (segment.sent_ns > newest_sent_ns ||
            (segment.sent_ns == newest_sent_ns && after(seq, newest_seq))) {
            newest_sent_ns = segment.sent_ns;
            newest_seq = seq;
            newest_delivered = segment.delivered;
        }
    }
    bool retransmits = false, sends_new = false, sets_timer = false;
    // A segment that was sent once has come.
    void note_original(const Sender &sender, uint32_t seq, uint32_t fack) {
        acked_original |= before(seq, sender.high_seq);
        if (!before(seq, fack))
            return;
        if (!is_reordered || before(seq, reordered))
            reordered = seq;
        is_reordered = true;
    }
};

} // namespace dcgym::twin::packets
