// SPDX-License-Identifier: Apache-2.0
// One end of a link: the queue in front of it, and what is on the wire.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel_time.hpp"
#include "marking.hpp"
#include "ring.hpp"
#include "token_bucket.hpp"

namespace dcgym::twin::packets {

// Since the last reset (dcgym.monitors' PORT_STATE).
struct PortCounters {
    uint64_t tx_bytes = 0;
    uint64_t tx_packets = 0;
    uint64_t drops = 0;
    uint64_t overlimits = 0;
    uint64_t marks = 0;
    uint64_t lost = 0; // by the link, not by the queue
};

struct PortConfig {
    uint64_t rate_bps = 0;
    uint64_t queue_bytes = 0;
    int64_t delay_ns = 0;        // from the queue to the next node's decision
    uint32_t peer = 0;           // number of the next node
    uint32_t frame_bytes = 1514; // largest that the link carries
    int64_t jitter_ns = 0;       // most that is added to a packet's delay; none overtakes another
    uint32_t loss = 0;           // probability, of 2^32, to lose a packet on the wire
    bool peer_is_host = false;
    bool is_relayed = false;  // what leaves the queue is held by the relay of link delay
    bool frees_early = false; // of a host: sockets are told when a packet leaves the queue
};

// Ring entries head .. waiting - 1 are on the wire, waiting .. tail - 1 in the queue: each knows
// when it leaves, so that the queue is settled only where somebody looks at it. Where packets are
// freed early, the sockets were told of those before freed.
class Port {
  public:
    enum class Fate : uint8_t { queued, dropped };

    void configure(const PortConfig &config) { config_ = config; }
    // Lateness and jitter are drawn as the seed has it.
    void reset(const MarkingRule &marking, int64_t now_ns, Lateness lateness, uint64_t seed);

    const PortConfig &config() const { return config_; }
    const PortCounters &counters() const { return counters_; }
    uint64_t backlog_bytes() const { return backlog_bytes_; }
    uint64_t peak_bytes() const { return peak_bytes_; }
    uint32_t packet_bytes() const { return packet_bytes_; }
    bool is_up() const { return is_up_; }

    // Takes in what has left the queue by now.
    void settle(int64_t now_ns) {
        while (waiting_ != ring_.tail() && ring_[waiting_].time_ns <= now_ns)
            depart();
    }

    // Counts a packet that arrives, before it is queued or dropped; returns its flags, maybe
    // marked.
    uint8_t meet(const Packet &packet, int64_t now_ns, Splitmix &random);
    // Queues a packet that is no larger than packet_bytes(), with the flags and the number of
    // switches passed that it has from now on.
    Fate enqueue(const Packet &packet, uint8_t flags, int64_t now_ns);

    void fetch_next() const { ring_.fetch_next(); }
    bool has_packets() const { return !ring_.empty(); }
    uint32_t held() const { return ring_.size(); }
    // When the first packet on the wire reaches the next node; before it has left the queue, the
    // earliest time at which it may.
    int64_t arrival_ns() { return ring_.front().time_ns + config_.delay_ns; }
    // When something is to be done next about a port that has packets.
    int64_t next_ns(int64_t now_ns) {
        if (!config_.frees_early)
            return arrival_ns();
        if (freed_ != waiting_)
            return now_ns;
        const int64_t leaves_ns = waiting_ == ring_.tail() ? arrival_ns() : ring_[waiting_].time_ns;
        return std::min(arrival_ns(), leaves_ns);
    }
    // The next packet that has left the queue and that its socket has not been told of, or none.
    const Packet *free_next() { return freed_ == waiting_ ? nullptr : &ring_[freed_++]; }
    // It stays readable until the next packet is queued here.
    const Packet &take() {
        const Packet &packet = ring_.front();
        ring_.pop();
        return packet;
    }

    void set_rate(uint64_t rate_bps, int64_t now_ns);
    // Probabilities, of 2^32, to lose a packet before the queue and on the wire.
    void set_loss(uint32_t before, uint32_t after) {
        loss_before_ = before;
        loss_after_ = after;
    }
    uint32_t loss_before() const { return loss_before_; }
    uint32_t loss_after() const { return loss_after_; }
    void count_loss() { counters_.lost++; }
    // A port that is down drops what it holds and what comes; drop(packet) is told of each.
    template <typename Drop> void set_up(bool is_up, int64_t now_ns, Drop &&drop) {
        settle(now_ns);
        is_up_ = is_up;
        for (uint32_t number = waiting_; number != ring_.tail(); number++)
            drop(ring_[number]);
        ring_.cut(waiting_);
        backlog_bytes_ = 0;
        is_held_ = false;
        last_ns_ = now_ns;
        bucket_.fill(now_ns);
    }
    void begin_peak() { peak_bytes_ = 0; }

  private:
    void depart() {
        Packet &packet = ring_[waiting_];
        backlog_bytes_ -= packet.bytes;
        counters_.tx_bytes += packet.bytes;
        counters_.tx_packets += packet.segments();
        waiting_++;
        is_held_ = false;
        if (waiting_ != ring_.tail() && ring_[waiting_].time_ns > packet.time_ns)
            counters_.overlimits++;
        if (config_.is_relayed)
            packet.time_ns = late_on_wire_ns(packet.time_ns);
    }
    // When a packet would have left, had the relay added its jitter and lateness before.
    int64_t late_on_wire_ns(int64_t departure_ns) {
        int64_t late_ns = departure_ns + lateness_.draw(wire_random_);
        if (config_.jitter_ns > 0)
            late_ns += wire_random_.between(0, config_.jitter_ns);
        return last_on_wire_ns_ = std::max(last_on_wire_ns_, late_ns);
    }
    void recompute(int64_t head_ns);
    // When a packet leaves that is the first from head_ns on: with tokens at once, else by a timer.
    int64_t departure_ns(uint32_t bytes, int64_t head_ns) {
        const int64_t due_ns = bucket_.send(bytes, head_ns);
        return due_ns > head_ns ? due_ns + lateness_.draw(random_) : due_ns;
    }

    PortConfig config_;
    TokenBucket bucket_;
    Ring<Packet> ring_;
    uint32_t waiting_ = 0, freed_ = 0;
    uint32_t packet_bytes_ = 0;
    int64_t last_ns_ = 0; // when the last packet in the queue leaves it
    uint64_t backlog_bytes_ = 0;
    uint64_t peak_bytes_ = 0;
    uint32_t loss_before_ = 0, loss_after_ = 0;
    bool is_up_ = true;
    bool is_held_ = false; // its first packet waits for a timer that a change of the rate left
    PortCounters counters_;
    Marking marking_;
    Lateness lateness_;
    Splitmix random_, wire_random_;
    int64_t last_on_wire_ns_ = 0;
};

} // namespace dcgym::twin::packets
