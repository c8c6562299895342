// SPDX-License-Identifier: Apache-2.0
// What a TCP sender makes of an acknowledgement, in the order of tcp_ack of Linux.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t least_rto_us = 200'000;

} // namespace

void Simulation::on_ack(uint32_t slot, const Packet &packet) {
    Flow &flow = flows_[slot];
    Sender &sender = flow.sender;
    if (flow.stage != Flow::Stage::sending || after(packet.seq, sender.snd_nxt))
        return;
    sender.now_ns = now_ns_;
    Ack ack;
    ack.prior_una = sender.snd_una;
    ack.prior_delivered = sender.delivered;
    ack.prior_lost = sender.lost;
    ack.prior_in_flight = sender.packets_in_flight();
    ack.advanced = after(packet.seq, sender.snd_una);
    ack.echo = (packet.flags & ecn_echo) != 0;
    const AckNote &note = notes_[packet.b];
    // As tcp_replace_ts_recent: one that a later one has overtaken sets no clock back.
    if (after(note.sent_ms, sender.echoed_ms))
        sender.echoed_ms = note.sent_ms;
    if (after(note.window_end, sender.window_end))
        sender.window_end = note.window_end;
    ack.echoed_ms = packet.a;
    ack.prior_fack = sender.sacked_out == 0 ? sender.snd_una : sender.fack;
    if (note.count > 0)
        take_blocks(sender, note, ack);
    if (before(packet.seq, sender.snd_una))
        return on_old_ack(slot, ack);
    if (ack.advanced)
        clean_window(sender, packet.seq, ack);
    measure_rtt(sender, ack);
    if (sender.ca->pkts_acked != nullptr)
        sender.ca->pkts_acked(sender, {ack.acked, static_cast<int32_t>(ack.rtt_us)});
    if (ack.echo)
        sender.delivered_ce += sender.delivered - ack.prior_delivered;
    if (sender.ca->in_ack_event != nullptr)
        sender.ca->in_ack_event(sender);
    if (config_.plb.rounds > 0)
        watch_marks(slot);
    if (sender.has_duplicate || sender.reorder_steps > 1)
        adapt_reorder_window(sender, ack);
    if (sender.is_tlp_out)
        answer_probe(slot, ack);
    const bool is_dubious =
        !(ack.advanced || ack.sacked) || ack.echo || ack.sacked || sender.state != CaState::open;
    if (is_dubious)
        alert(slot, ack);
    if (ack.sets_timer && sender.timer != Timer::reorder && !schedule_probe(slot, true))
        rearm_retransmit(slot);
    control(slot, ack);
    if (ack.sends_new) {
        write_some(slot, false);
        sender.is_frto = after(sender.snd_nxt, sender.high_seq);
        ack.retransmits = !sender.is_frto;
    }
    if (ack.retransmits)
        retransmit_lost(slot);
    write_some(slot, false);
}

// One that a later one has overtaken tells of nothing but its blocks (old_ack in tcp_ack).
void Simulation::on_old_ack(uint32_t slot, Ack &ack) {
    if (!ack.sacked)
        return;
    alert(slot, ack);
    if (ack.retransmits)
        retransmit_lost(slot);
}

// Takes in blocks by rising sequence, but for what the last acknowledgement had told already.
void Simulation::take_blocks(Sender &sender, AckNote note, Ack &ack) {
    uint32_t first = 0;
    if (note.is_duplicate) {
        note_duplicate(sender, note.blocks[0], ack);
        first = 1;
    }
    std::sort(note.blocks + first, note.blocks + note.count,
              [](const Block &a, const Block &b) { return before(a.begin, b.begin); });
    for (uint32_t i = first; i < note.count; i++) {
        Block block = note.blocks[i];
        for (const Block &taken : sender.taken)
            if (!before(block.begin, taken.begin) && before(block.begin, taken.end))
                block.begin = before(taken.end, block.end) ? taken.end : block.end;
        take_sack(sender, block, ack);
    }
    std::fill_n(sender.taken, AckNote::most, Block{0, 0});
    std::copy(note.blocks + first, note.blocks + note.count, sender.taken);
    if (ack.is_reordered && (sender.state != CaState::loss || sender.has_undo))
        check_reordering(sender, ack.reordered);
    ack.is_reordered = false;
}

void Simulation::take_sack(Sender &sender, Block block, Ack &ack) {
    const auto [start, end] = block;
    if (after(end, sender.snd_nxt))
        return;
    const uint32_t begin = before(start, sender.snd_una) ? sender.snd_una : start;
    const uint32_t fack = sender.sacked_out == 0 ? sender.snd_una : sender.fack;
    for (uint32_t seq = begin; before(seq, end); seq++) {
        Segment &segment = sender.segment(seq);
        if (segment.flags & Segment::sacked)
            continue;
        if (segment.flags & Segment::in_retransmission)
            sender.retrans_out--;
        if (segment.flags & Segment::lost)
            sender.lost_out--;
        if (!(segment.flags & Segment::retransmitted)) {
            if (ack.first_sacked_ns < 0)
                ack.first_sacked_ns = segment.sent_ns;
            ack.last_sacked_ns = segment.sent_ns;
            ack.note_original(sender, seq, fack);
        }
        advance_rack(sender, segment, seq);
        ack.note(segment, seq);
        segment.flags &= static_cast<uint8_t>(~(Segment::lost | Segment::in_retransmission));
        segment.flags |= Segment::sacked;
        sender.sacked_out++;
        sender.delivered++;
        ack.sacked = true;
    }
    if (before(begin, end) && (sender.sacked_out == 0 || after(end, fack)))
        sender.fack = end;
}

void Simulation::clean_window(Sender &sender, uint32_t upto, Ack &ack) {
    for (uint32_t seq = sender.snd_una; seq != upto; seq++) {
        Segment &segment = sender.segment(seq);
        if (segment.flags & Segment::retransmitted) {
            if (segment.flags & Segment::in_retransmission)
                sender.retrans_out--;
            ack.acked_retransmission = true;
        } else if (!(segment.flags & Segment::sacked)) {
            if (ack.first_acked_ns < 0)
                ack.first_acked_ns = segment.sent_ns;
            ack.last_acked_ns = segment.sent_ns;
            if (sender.state != CaState::open)
                ack.note_original(sender, seq, ack.prior_fack);
        }
        if (segment.flags & Segment::sacked) {
            sender.sacked_out--;
        } else {
            sender.delivered++;
            advance_rack(sender, segment, seq);
            ack.note(segment, seq);
        }
        if (segment.flags & Segment::lost)
            sender.lost_out--;
        ack.acked++;
    }
    sender.snd_una = upto;
    if (ack.is_reordered)
        check_reordering(sender, ack.reordered);
    ack.acked_data = ack.sets_timer = true;
    sender.backoff = 0;
}

void Simulation::measure_rtt(Sender &sender, Ack &ack) {
    int64_t rtt_us = -1;
    const int64_t now_us = now_ns_ / 1000;
    if (ack.first_acked_ns >= 0 && !ack.acked_retransmission) {
        rtt_us = now_us - ack.first_acked_ns / 1000;
        ack.rtt_us = now_us - ack.last_acked_ns / 1000;
    }
    if (ack.first_sacked_ns >= 0) {
        if (rtt_us < 0)
            rtt_us = now_us - ack.first_sacked_ns / 1000;
        ack.rtt_us = now_us - ack.last_sacked_ns / 1000;
    }
    // Of what was sent twice the time stamps tell, in ms.
    if (rtt_us < 0 && ack.acked_data && ack.echoed_ms != 0)
        rtt_us = ack.rtt_us = std::max<int64_t>(stamp_ms() - ack.echoed_ms, 1) * 1000;
    if (rtt_us < 0)
        return;
    const auto least = static_cast<uint32_t>(std::max<int64_t>(ack.rtt_us, 1));
    sender.min_rtt_us = sender.min_rtt_us == 0 ? least : std::min(sender.min_rtt_us, least);
    estimate_rtt(sender, std::max<int64_t>(rtt_us, 1));
}

// As tcp_rtt_estimator and tcp_set_rto.
void Simulation::estimate_rtt(Sender &sender, int64_t rtt_us) {
    if (sender.srtt_us != 0) {
        int64_t error = rtt_us - (sender.srtt_us >> 3);
        sender.srtt_us = static_cast<uint32_t>(sender.srtt_us + error);
        if (error < 0) {
            error = -error - (sender.mdev_us >> 2);
            if (error > 0)
                error >>= 3;
        } else {
            error -= sender.mdev_us >> 2;
        }
        sender.mdev_us = static_cast<uint32_t>(sender.mdev_us + error);
        if (sender.mdev_us > sender.mdev_max_us) {
            sender.mdev_max_us = sender.mdev_us;
            sender.rttvar_us = std::max(sender.rttvar_us, sender.mdev_max_us);
        }
        if (after(sender.snd_una, sender.rtt_seq)) {
            if (sender.mdev_max_us < sender.rttvar_us)
                sender.rttvar_us -= (sender.rttvar_us - sender.mdev_max_us) >> 2;
            sender.rtt_seq = sender.snd_nxt;
            sender.mdev_max_us = least_rto_us;
        }
    } else {
        sender.srtt_us = static_cast<uint32_t>(std::max<int64_t>(rtt_us, 1) << 3);
        sender.mdev_us = static_cast<uint32_t>(rtt_us << 1);
        sender.rttvar_us = sender.mdev_max_us = std::max(sender.mdev_us, least_rto_us);
        sender.rtt_seq = sender.snd_nxt;
    }
    const int64_t rto_us = int64_t{sender.srtt_us >> 3} + sender.rttvar_us;
    // The timer counts ticks, and one that began is not counted.
    sender.rto_ns = (rto_us * 1000 + tick_ns - 1) / tick_ns * tick_ns;
}

// As tcp_cong_control.
void Simulation::control(uint32_t slot, const Ack &ack) {
    Sender &sender = flows_[slot].sender;
    if (sender.ca->cong_control != nullptr)
        return sender.ca->cong_control(sender, sample_rate(sender, ack));
    const uint32_t delivered = sender.delivered - ack.prior_delivered;
    const uint32_t losses = sender.lost - ack.prior_lost;
    if (sender.in_cwnd_reduction())
        reduce_cwnd(sender, delivered, losses, ack.advanced);
    else if (ack.acked_data || (ack.sacked && sender.reordering > duplicate_threshold))
        sender.ca->cong_avoid(sender, sender.snd_una, delivered);
    update_pacing_rate(sender, sender.snd_cwnd, sender.snd_ssthresh);
}

} // namespace dcgym::twin::packets
