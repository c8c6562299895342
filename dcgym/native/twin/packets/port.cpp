// SPDX-License-Identifier: Apache-2.0
#include "port.hpp"

#include <algorithm>

namespace dcgym::twin::packets {

void Port::reset(const MarkingRule &marking, int64_t now_ns, Lateness lateness, uint64_t seed) {
    lateness_ = lateness;
    random_ = Splitmix(seed);
    wire_random_ = Splitmix(stream_seed(seed, 'j', 0));
    last_on_wire_ns_ = now_ns;
    ring_.clear();
    ring_.reserve(16);
    waiting_ = freed_ = 0;
    // Packets are lost one by one.
    packet_bytes_ =
        config_.loss > 0 ? config_.frame_bytes : packet_for(config_.rate_bps, config_.frame_bytes);
    bucket_.set_rate(config_.rate_bps, config_.rate_bps, config_.frame_bytes, now_ns);
    last_ns_ = now_ns;
    backlog_bytes_ = peak_bytes_ = 0;
    loss_before_ = loss_after_ = 0;
    is_up_ = true;
    is_held_ = false;
    counters_ = {};
    marking_.set(marking);
}

uint8_t Port::meet(const Packet &packet, int64_t now_ns, Splitmix &random) {
    const uint64_t before = backlog_bytes_, after = before + packet.bytes;
    if (after > config_.queue_bytes) {
        peak_bytes_ = std::max(peak_bytes_, before);
        return packet.flags;
    }
    peak_bytes_ = std::max(peak_bytes_, after);
    // RED's average follows every packet, those included that cannot be marked.
    if (!marking_.is_on() || !marking_.should_mark(before, packet.bytes, now_ns, random))
        return packet.flags;
    if ((packet.flags & ecn_capable) == 0)
        return packet.flags;
    counters_.marks += packet.segments();
    return packet.flags | congestion_experienced;
}

Port::Fate Port::enqueue(const Packet &packet, uint8_t flags, int64_t now_ns) {
    if (backlog_bytes_ + packet.bytes > config_.queue_bytes) {
        counters_.drops++;
        return Fate::dropped;
    }
    if (is_held_)
        recompute(now_ns);
    last_ns_ = departure_ns(packet.bytes, std::max(now_ns, last_ns_));
    backlog_bytes_ += packet.bytes;
    // What changes is written into the copy: a processor waits where it reads as one word what it
    // has just written as bytes.
    Packet &queued = ring_.push();
    queued = packet;
    queued.time_ns = last_ns_;
    queued.flags = flags;
    if (ring_[waiting_].time_ns > now_ns)
        counters_.overlimits++;
    else
        settle(now_ns);
    return Fate::queued;
}

// A change fills the bucket (sch_tbf.c) and leaves the timer of the packet that waits: it leaves at
// the old time, or when the next packet comes.
void Port::set_rate(uint64_t rate_bps, int64_t now_ns) {
    settle(now_ns);
    bucket_.set_rate(rate_bps, config_.rate_bps, config_.frame_bytes, now_ns);
    if (waiting_ == ring_.tail())
        return;
    const int64_t timer_ns = ring_[waiting_].time_ns;
    bucket_.fill(timer_ns);
    recompute(timer_ns);
    is_held_ = true;
}

void Port::recompute(int64_t head_ns) {
    if (is_held_)
        bucket_.fill(head_ns);
    is_held_ = false;
    for (uint32_t number = waiting_; number != ring_.tail(); number++) {
        head_ns = departure_ns(ring_[number].bytes, head_ns);
        ring_[number].time_ns = head_ns;
    }
    last_ns_ = head_ns;
}

} // namespace dcgym::twin::packets
