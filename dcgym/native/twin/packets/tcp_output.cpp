// SPDX-License-Identifier: Apache-2.0
// What a TCP sender sends, and when: tcp_output.c of Linux in a few rules.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr uint64_t most_queued_bytes = 4 << 20; // sysctl tcp_limit_output_bytes
constexpr uint32_t pacing_shift = 10;           // a packet holds what a millisecond sends
constexpr uint32_t tso_win_divisor = 3;         // sysctl tcp_tso_win_divisor
constexpr int64_t least_rto_ns = 200'000'000;
constexpr uint32_t unpaced_segments = 10; // of a flow, before pacing begins
// The call that opens a socket writes to it, where the handshake is over so soon.
constexpr int64_t opening_call_ns = 100'000, accept_ns = 50'000;

// Segments of the packet to be sent next. As tcp_grow_skb (Linux 6.10): one that is smaller than
// what may be sent takes from the next.
uint32_t head_packet(const Sender &sender, uint32_t quota) {
    const uint32_t head = sender.head_segments;
    const uint32_t grown = head < quota ? std::min(quota, head + sender.skb_segments) : head;
    return std::min(grown, sender.total - sender.snd_nxt);
}

// What is left of the packets that the application's writes made.
void take_from_head(Sender &sender, uint32_t count) {
    const uint32_t beyond = count > sender.head_segments ? count - sender.head_segments : 0;
    sender.head_segments -= count - beyond;
    if (sender.head_segments == 0)
        sender.head_segments = sender.skb_segments - beyond % sender.skb_segments;
}

} // namespace

void Simulation::connected(uint32_t slot, const Packet &answer) {
    Flow &flow = flows_[slot];
    if (flow.stage != Flow::Stage::connecting)
        return;
    flow.stage = Flow::Stage::sending;
    Sender &sender = flow.sender;
    sender.now_ns = now_ns_;
    // A SYN that was sent twice measures nothing.
    if (flow.syns == 1) {
        const int64_t rtt_us = (now_ns_ - flow.syn_ns) / 1000;
        sender.min_rtt_us = static_cast<uint32_t>(std::max<int64_t>(rtt_us, 1));
        estimate_rtt(sender, rtt_us);
    }
    flow.syn_timeout_ns = 0;
    sender.echoed_ms = answer.a;
    // The SYN counts as delivered, and there were no data to send beside it.
    sender.delivered = sender.app_limited = 1;
    update_pacing_rate(sender, sender.snd_cwnd, sender.snd_ssthresh);
    if (sender.ca->init != nullptr)
        sender.ca->init(sender);
    Packet packet{};
    packet.flow = slot;
    packet.bytes = tcp_header_bytes;
    packet.kind = Kind::handshake_ack;
    packet.flags = sender.uses_ecn ? ecn_capable : 0;
    transmit(flow.src, packet);
    if (now_ns_ - flow.start_ns < opening_call_ns) {
        // What passes meanwhile is there when the generator accepts the other end.
        flow.served_ns = std::max(flow.served_ns, now_ns_ + accept_ns);
        return write(slot);
    }
    if (now_ns_ >= flow.served_ns)
        return write(slot);
    sender.pacing_ns = flow.served_ns;
    tree_.set_if_sooner(leaf_of(slot), sender.pacing_ns);
}

uint32_t Simulation::segment_bytes(const Flow &flow, uint32_t seq, uint32_t count) const {
    const uint32_t mss_bytes = flow.sender.mss_bytes, bytes = count * mss_bytes;
    if (flow.size_bytes < 0 || seq + count != flow.sender.total)
        return bytes;
    return bytes - static_cast<uint32_t>(uint64_t{flow.sender.total} * mss_bytes -
                                         static_cast<uint64_t>(flow.size_bytes));
}

// As tcp_tso_autosize with tcp_tso_rtt_log=0: by rate alone.
uint32_t Simulation::packet_segments(const Sender &sender) const {
    // In 32 bits, which a processor divides faster: more is capped anyhow.
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>(sender.pacing_rate >> pacing_shift, UINT32_MAX));
    const uint32_t segments = bytes / sender.mss_bytes;
    const uint32_t least = sender.ca->min_tso_segments != nullptr
                               ? sender.ca->min_tso_segments(sender)
                               : least_tso_segments;
    return std::min(std::max(segments, least), sender.tso_segments);
}

// TCP small queues: no more waits in the host than a millisecond sends, and two packets.
bool Simulation::is_small_queue_full(Sender &sender, uint32_t segments, uint32_t factor) const {
    uint64_t limit = std::max<uint64_t>(2 * (skb_bytes + uint64_t{segments} * sender.mss_bytes),
                                        sender.pacing_rate >> pacing_shift);
    limit = std::min(limit, most_queued_bytes) << factor;
    if (sender.queued_bytes + 1 <= limit)
        return false;
    // One packet that nothing follows is not enough to keep acknowledgements coming.
    uint32_t second = sender.snd_una + 1;
    while (before(second, sender.snd_nxt) && !(sender.segment(second).flags & Segment::begins))
        second++;
    if (!before(second, sender.snd_nxt))
        return false;
    sender.is_throttled = true;
    return true;
}

// As tcp_tso_should_defer: a fuller packet may be possible soon.
bool Simulation::defers(Flow &flow, uint32_t room, uint32_t most, uint32_t head) const {
    const Sender &sender = flow.sender;
    if (sender.state >= CaState::recovery || room >= most || sender.packets_out() == 0)
        return false;
    if (now_ns_ - sender.wstamp_ns > 1'000'000)
        return false;
    if (room >= head || room >= sender.snd_cwnd / tso_win_divisor)
        return false;
    // Not where the next acknowledgement is half a round trip away, or a millisecond.
    const int64_t srtt_ns = int64_t{125} * sender.srtt_us;
    const int64_t due_ns = flow.sender.segment(sender.snd_una).sent_ns + srtt_ns;
    return due_ns - now_ns_ <= std::min<int64_t>(srtt_ns / 2, 1'000'000);
}

// Whether the next packet has to wait; then a timer of the flow sends it.
bool Simulation::is_pacing(uint32_t slot) {
    Sender &sender = flows_[slot].sender;
    if (!sender.is_paced || sender.wstamp_ns <= now_ns_)
        return false;
    // A timer that is late is not set again.
    if (sender.pacing_ns == 0)
        sender.pacing_ns = sender.wstamp_ns + lateness_.draw(timer_random_);
    tree_.set_if_sooner(leaf_of(slot), sender.pacing_ns);
    return true;
}

// As tcp_update_skb_after_send: what the last packet left late may be made good, up to half.
void Simulation::pace(Sender &sender, uint32_t payload_bytes) {
    const int64_t credit_ns = std::max<int64_t>(now_ns_ - sender.wstamp_ns, 0);
    sender.wstamp_ns = std::max(sender.wstamp_ns, now_ns_);
    if (sender.segments_sent < unpaced_segments)
        return;
    const auto wait_ns = static_cast<int64_t>(static_cast<unsigned __int128>(payload_bytes) *
                                              1'000'000'000 / sender.pacing_rate);
    sender.wstamp_ns += wait_ns - std::min(wait_ns / 2, credit_ns);
}

void Simulation::write(uint32_t slot) {
    Flow &flow = flows_[slot];
    if (flow.stage != Flow::Stage::sending || flow.is_udp)
        return;
    flow.sender.now_ns = now_ns_;
    if (flow.sender.lost_out > flow.sender.retrans_out)
        retransmit_lost(slot);
    write_some(slot, false);
}

bool Simulation::write_some(uint32_t slot, bool is_probe) {
    Flow &flow = flows_[slot];
    Sender &sender = flow.sender;
    const uint32_t most = packet_segments(sender);
    uint32_t sent = 0;
    bool is_limited = false;
    while (sender.snd_nxt != sender.total) {
        if (is_pacing(slot))
            break;
        const uint32_t in_flight = sender.packets_in_flight();
        const uint32_t room = sender.snd_cwnd > in_flight ? sender.snd_cwnd - in_flight : 0;
        if ((room == 0 && !is_probe) || !before(sender.snd_nxt, sender.window_end))
            break;
        const uint32_t quota =
            std::min({std::max(room, 1U), std::max(sender.snd_cwnd >> 1, 1U), most});
        const uint32_t head = is_probe ? 1 : head_packet(sender, quota);
        if (head > 1 && defers(flow, room, most, head)) {
            is_limited = true;
            break;
        }
        const uint32_t count = std::min({quota, head, sender.window_end - sender.snd_nxt});
        if (is_small_queue_full(sender, count, 0))
            break;
        send_segments(slot, sender.snd_nxt, count, false);
        take_from_head(sender, count);
        sent += count;
        if (is_probe)
            break;
    }
    if (sent == 0 && !is_limited)
        is_limited = sender.packets_in_flight() >= sender.snd_cwnd;
    if (sender.in_cwnd_reduction())
        sender.prr_out += sent;
    if (sent > 0 && !is_probe)
        schedule_probe(slot, false);
    is_limited |= sender.packets_in_flight() >= sender.snd_cwnd;
    if (sent > 0 || is_limited)
        validate_cwnd(sender, is_limited);
    return sent > 0;
}

void Simulation::grow_window(Sender &sender, uint32_t count) {
    const size_t size = 2 * std::max<size_t>(sender.window.size(), count), mask = size - 1;
    std::vector<Segment> window(size);
    std::vector<RateMark> marks(sender.rate_marks.empty() ? 0 : size);
    for (uint32_t i = sender.snd_una; i != sender.snd_nxt; i++) {
        window[i & mask] = sender.segment(i);
        if (!marks.empty())
            marks[i & mask] = sender.rate_marks[i & (sender.window.size() - 1)];
    }
    sender.window.swap(window);
    sender.rate_marks.swap(marks);
}

void Simulation::send_segments(uint32_t slot, uint32_t seq, uint32_t count,
                               bool is_retransmission) {
    Flow &flow = flows_[slot];
    Sender &sender = flow.sender;
    const bool was_idle = sender.packets_out() == 0;
    if (sender.packets_in_flight() == 0) {
        if (sender.ca->event != nullptr)
            sender.ca->event(sender, CaEvent::tx_start);
        if (config_.plb.rounds > 0)
            relabel_if_due(flow);
    }
    if (!is_retransmission && sender.packets_out() + count >= sender.window.size())
        grow_window(sender, count);
    if (sender.ca->samples_rate)
        mark_rate(sender, seq, count);
    for (uint32_t i = seq; i != seq + count; i++) {
        Segment &segment = sender.segment(i);
        if (is_retransmission) {
            segment.flags |= Segment::in_retransmission | Segment::retransmitted;
            sender.retransmissions.push({now_ns_, i});
        } else {
            segment.flags = i == seq ? Segment::begins : 0;
        }
        segment.sent_ns = now_ns_;
        segment.delivered = sender.delivered;
    }
    Packet packet{};
    packet.flow = slot;
    packet.seq = seq;
    packet.count = static_cast<uint8_t>(count);
    packet.a = stamp_ms();
    packet.b = sender.echoed_ms;
    const uint32_t payload = segment_bytes(flow, seq, count);
    packet.bytes = payload + count * tcp_header_bytes;
    packet.kind = Kind::data;
    packet.flags = sender.uses_ecn ? ecn_capable : 0;
    sender.queued_bytes += skb_bytes + payload;
    if (is_retransmission) {
        note_retransmission(sender, count);
        sender.retrans_out += count;
        sender.segments_sent_again += count;
        hosts_[flow.src].retransmits += count;
    } else {
        sender.snd_nxt += count;
    }
    sender.segments_sent += count;
    if (sender.is_paced)
        pace(sender, payload);
    else
        sender.wstamp_ns = now_ns_;
    transmit(flow.src, packet);
    if (!is_retransmission && (was_idle || sender.timer == Timer::probe))
        rearm_retransmit(slot);
}

// Sends again what is lost, lowest first, as far as the window allows.
void Simulation::retransmit_lost(uint32_t slot) {
    Sender &sender = flows_[slot].sender;
    const uint32_t most = packet_segments(sender);
    uint32_t seq =
        before(sender.retransmit_hint, sender.snd_una) ? sender.snd_una : sender.retransmit_hint;
    constexpr uint8_t done = Segment::sacked | Segment::in_retransmission;
    const auto is_due = [&sender](uint32_t at) {
        const uint8_t flags = sender.segment(at).flags;
        return (flags & Segment::lost) && !(flags & done);
    };
    while (seq != sender.snd_nxt && sender.lost_out > sender.retrans_out) {
        if (!is_due(seq)) {
            seq++;
            continue;
        }
        if (is_pacing(slot) || sender.snd_cwnd <= sender.packets_in_flight())
            break;
        const uint32_t room = std::min(sender.snd_cwnd - sender.packets_in_flight(), most);
        uint32_t count = 1;
        while (count < room && seq + count != sender.snd_nxt && is_due(seq + count) &&
               !(sender.segment(seq + count).flags & Segment::begins))
            count++;
        if (is_small_queue_full(sender, count, 1))
            break;
        const bool is_first = seq == sender.snd_una;
        send_segments(slot, seq, count, true);
        if (sender.in_cwnd_reduction())
            sender.prr_out += count;
        if (is_first && sender.timer != Timer::reorder)
            set_timer(slot, Timer::retransmit, sender.rto_ns);
        seq += count;
    }
    sender.retransmit_hint = seq;
}

// The strongest sign within a window of how far it is used.
void Simulation::validate_cwnd(Sender &sender, bool is_limited) {
    if (!before(sender.snd_una, sender.cwnd_usage_seq) || is_limited ||
        (!sender.is_cwnd_limited && sender.packets_out() > sender.max_packets_out)) {
        sender.is_cwnd_limited = is_limited;
        sender.max_packets_out = sender.packets_out();
        sender.cwnd_usage_seq = sender.snd_nxt;
    }
}

void Simulation::set_timer(uint32_t slot, Timer timer, int64_t wait_ns) {
    Sender &sender = flows_[slot].sender;
    sender.timer = timer;
    sender.timer_ns = clock_.fires_ns(now_ns_, wait_ns);
    tree_.set_if_sooner(leaf_of(slot), sender.timer_ns);
}

void Simulation::rearm_retransmit(uint32_t slot) {
    Sender &sender = flows_[slot].sender;
    if (sender.packets_out() == 0) {
        sender.timer = Timer::none;
        return;
    }
    int64_t from_ns = now_ns_;
    if (sender.timer == Timer::probe || sender.timer == Timer::reorder)
        from_ns = sender.segment(sender.snd_una).sent_ns;
    set_timer(slot, Timer::retransmit, std::max(from_ns + sender.rto_ns - now_ns_, tick_ns));
}

bool Simulation::schedule_probe(uint32_t slot, bool advances) {
    Sender &sender = flows_[slot].sender;
    if (sender.packets_out() == 0 ||
        (sender.state != CaState::open && sender.state != CaState::cwr))
        return false;
    int64_t wait_ns = 1'000'000'000;
    if (sender.srtt_us != 0) {
        wait_ns = int64_t{1000} * (sender.srtt_us >> 2);
        wait_ns += sender.packets_out() == 1 ? least_rto_ns : least_timeout_ns;
    }
    const int64_t oldest_ns = advances ? now_ns_ : sender.segment(sender.snd_una).sent_ns;
    const int64_t rto_left_ns = oldest_ns + sender.rto_ns - now_ns_;
    if (rto_left_ns > 0)
        wait_ns = std::min(wait_ns, rto_left_ns);
    set_timer(slot, Timer::probe, wait_ns);
    return true;
}

} // namespace dcgym::twin::packets
