// SPDX-License-Identifier: Apache-2.0
// What a TCP receiver does with data: delayed, quick and immediate acknowledgements, and the echo.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t most_quick_acks = 16;
constexpr int64_t least_ack_timeout_ns = 40'000'000;
constexpr int64_t longest_ack_timeout_ns = 200'000'000;
// Sysctls tcp_comp_sack_nr, tcp_comp_sack_delay_ns and tcp_comp_sack_slack_ns; a part of the RTT.
constexpr uint32_t most_compressed_acks = 44;
constexpr int64_t longest_compression_ns = 1'000'000, compression_slack_ns = 100'000;
constexpr int64_t compressions_of_rtt = 20;

} // namespace

void Simulation::on_data(uint32_t slot, const Packet &packet) {
    Flow &flow = flows_[slot];
    Receiver &receiver = flow.receiver;
    if (flow.stage == Flow::Stage::connecting)
        return;
    const bool had_gap = !receiver.blocks.empty();
    const uint32_t end_seq = packet.seq + packet.count;
    const bool is_old = !after(end_seq, receiver.rcv_nxt);
    if (is_old) {
        receiver.quick_acks = std::max(receiver.quick_acks, most_quick_acks);
        receiver.duplicate = {packet.seq, end_seq};
        return send_ack(slot, receiver.rcv_nxt);
    }
    const uint32_t before_nxt = receiver.rcv_nxt;
    // As tcp_sack_new_ofo_skb: what waits to be told is told before another block forgets it.
    if (receiver.compressed_acks > 0 && receiver.recents == Receiver::most_recent &&
        receiver.is_apart(packet.seq, end_seq))
        send_ack(slot, before_nxt);
    if (after(packet.seq, before_nxt))
        flow.out_of_order += packet.count;
    if (!after(packet.seq, receiver.rcv_wup) && after(packet.a, receiver.recent_ms))
        receiver.recent_ms = packet.a;
    if (!receiver.is_accepted && now_ns_ > flow.served_ns) {
        receiver.is_accepted = true;
        receiver.window.accept(flow.served_ns);
    }
    receiver.window.measure(packet.b, stamp_ms());
    const uint32_t fresh = receiver.take(packet.seq, end_seq);
    if (flow.sender.uses_ecn)
        hear_congestion(slot, (packet.flags & congestion_experienced) != 0);
    if (fresh > 0) {
        uint64_t bytes = uint64_t{fresh} * flow.sender.mss_bytes;
        if (flow.size_bytes >= 0 && end_seq == flow.sender.total)
            bytes -= uint64_t{flow.sender.total} * flow.sender.mss_bytes -
                     static_cast<uint64_t>(flow.size_bytes);
        hosts_[flow.dst].rx_bytes += bytes;
        hosts_[flow.src].tx_bytes += bytes;
    }
    if (receiver.rcv_nxt != before_nxt) {
        flow.read_bytes = uint64_t{receiver.rcv_nxt} * flow.sender.mss_bytes;
        if (flow.size_bytes >= 0)
            flow.read_bytes = std::min(flow.read_bytes, static_cast<uint64_t>(flow.size_bytes));
        if (receiver.rcv_nxt == flow.sender.total)
            return end(slot, Outcome::finished);
        // RFC 5681, section 4.2: at once where a gap is filled.
        receiver.is_ack_now |= had_gap && receiver.blocks.empty();
    }
    note_data(receiver);
    uint32_t waiting = 0;
    for (const Block &block : receiver.blocks)
        waiting += block.end - block.begin;
    // While its window grows the receiver acknowledges every packet.
    if (receiver.window.take(packet.count, receiver.rcv_nxt - before_nxt, waiting, now_ns_))
        receiver.quick_acks |= 1;
    check_ack(slot);
}

// As tcp_event_data_recv: the time that an acknowledgement may wait follows the gaps of the data.
void Simulation::note_data(Receiver &receiver) {
    if (!receiver.has_data) {
        receiver.has_data = true;
        receiver.quick_acks = most_quick_acks;
        receiver.ack_timeout_ns = least_ack_timeout_ns;
    } else {
        const int64_t gap_ns = now_ns_ - receiver.last_data_ns;
        int64_t &timeout_ns = receiver.ack_timeout_ns;
        if (gap_ns <= least_ack_timeout_ns / 2)
            timeout_ns = timeout_ns / 2 + least_ack_timeout_ns / 2;
        else if (gap_ns < timeout_ns)
            timeout_ns = std::min(timeout_ns / 2 + gap_ns, longest_ack_timeout_ns);
        else if (gap_ns > longest_ack_timeout_ns)
            receiver.quick_acks = most_quick_acks;
    }
    receiver.last_data_ns = now_ns_;
    receiver.is_ack_scheduled = true;
}

void Simulation::check_ack(uint32_t slot) {
    Flow &flow = flows_[slot];
    Receiver &receiver = flow.receiver;
    if (receiver.rcv_nxt - receiver.rcv_wup > 1 || receiver.quick_acks > 0 || receiver.is_ack_now)
        return send_ack(slot, receiver.rcv_nxt);
    if (!receiver.blocks.empty())
        return compress_ack(slot);
    if (receiver.delayed_ack_ns == 0) {
        receiver.delayed_ack_ns =
            clock_.fires_ns(now_ns_, std::min(receiver.ack_timeout_ns, least_ack_timeout_ns));
        tree_.set_if_sooner(leaf_of(slot), receiver.delayed_ack_ns);
    }
}

// As __tcp_ack_snd_check: behind a gap three packets are acknowledged at once, then one
// acknowledgement stands for those of a while.
void Simulation::compress_ack(uint32_t slot) {
    Receiver &receiver = flows_[slot].receiver;
    if (receiver.duplicate_nxt != receiver.rcv_nxt) {
        receiver.duplicate_nxt = receiver.rcv_nxt;
        receiver.duplicate_acks = 0;
    }
    if (receiver.compressed_acks >= most_compressed_acks)
        return send_ack(slot, receiver.rcv_nxt);
    if (receiver.duplicate_acks < duplicate_threshold) {
        receiver.duplicate_acks++;
        return send_ack(slot, receiver.rcv_nxt);
    }
    if (receiver.compressed_acks++ > 0)
        return;
    uint32_t rtt_us = receiver.window.rtt_us();
    if (receiver.handshake_rtt_us != 0)
        rtt_us = std::min(rtt_us, receiver.handshake_rtt_us);
    const int64_t wait_ns =
        std::min(int64_t{125} * rtt_us / compressions_of_rtt, longest_compression_ns);
    receiver.compressed_ack_ns = now_ns_ + wait_ns + timer_random_.between(0, compression_slack_ns);
    tree_.set_if_sooner(leaf_of(slot), receiver.compressed_ack_ns);
}

// DCTCP's echo (RFC 8257, section 3.2): when the state changes, what is owed goes out at once with
// the old one, so that every acknowledgement speaks for packets of one state.
void Simulation::hear_congestion(uint32_t slot, bool is_marked) {
    Receiver &receiver = flows_[slot].receiver;
    if (receiver.ce_state != is_marked) {
        if (receiver.is_ack_scheduled || before(receiver.rcv_wup, receiver.prior_rcv_nxt)) {
            receiver.echoes_congestion = receiver.ce_state;
            send_ack(slot, receiver.prior_rcv_nxt);
        }
        receiver.is_ack_now = true;
    }
    receiver.prior_rcv_nxt = receiver.rcv_nxt;
    receiver.ce_state = receiver.echoes_congestion = is_marked;
}

// Writes down what the receiver tells at this moment: its clock, its window, and what has come
// beyond the acknowledged, or twice.
void Simulation::write_note(Receiver &receiver, Packet &packet) {
    if (free_notes_.empty()) {
        free_notes_.push_back(static_cast<uint32_t>(notes_.size()));
        notes_.emplace_back();
    }
    packet.b = free_notes_.back();
    free_notes_.pop_back();
    AckNote &note = notes_[packet.b];
    note.sent_ms = stamp_ms();
    note.window_end = receiver.rcv_nxt + receiver.window.offer(receiver.rcv_nxt - receiver.rcv_wup);
    note.count = 0;
    note.is_duplicate = receiver.duplicate.begin != receiver.duplicate.end;
    if (note.is_duplicate)
        note.blocks[note.count++] = receiver.duplicate;
    receiver.duplicate = {0, 0};
    for (uint32_t i = 0; i < receiver.recents && note.count < AckNote::most; i++)
        note.blocks[note.count++] = receiver.recent[i];
    if (note.count > 0)
        packet.bytes += sack_option_bytes + note.count * sack_block_bytes;
}

void Simulation::send_ack(uint32_t slot, uint32_t rcv_nxt) {
    Flow &flow = flows_[slot];
    Receiver &receiver = flow.receiver;
    Packet packet{};
    packet.flow = slot;
    packet.seq = rcv_nxt;
    packet.bytes = tcp_header_bytes;
    packet.kind = Kind::ack;
    packet.a = receiver.recent_ms;
    write_note(receiver, packet);
    if (flow.sender.uses_ecn)
        packet.flags =
            static_cast<uint8_t>(ecn_capable | (receiver.echoes_congestion ? ecn_echo : 0));
    receiver.rcv_wup = receiver.rcv_nxt;
    receiver.compressed_acks = 0;
    receiver.compressed_ack_ns = 0;
    // One that speaks of an earlier state leaves the next one due.
    if (rcv_nxt == receiver.rcv_nxt) {
        if (receiver.quick_acks > 0)
            receiver.quick_acks--;
        receiver.is_ack_scheduled = receiver.is_ack_now = false;
        receiver.delayed_ack_ns = 0;
    }
    transmit(flow.dst, packet);
}

} // namespace dcgym::twin::packets
