// SPDX-License-Identifier: Apache-2.0
// What makes good a reduction that reordering or a late acknowledgement caused, as Linux does:
// by duplicates that the receiver reports (RFC 3708), by time stamps (Eifel, RFC 3522) and after
// timeouts by F-RTO (RFC 5682). RACK then waits longer (RFC 8985, section 6.2).
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t most_reordering = 300; // sysctl tcp_max_reordering
constexpr uint32_t most_reorder_steps = 255, reorder_recoveries = 16;

// Whether an acknowledgement answers what left before the first retransmission.
bool is_delayed(const Sender &sender, uint32_t echoed_ms) {
    return sender.retrans_stamp_ms == 0 || before(echoed_ms, sender.retrans_stamp_ms);
}

bool may_undo(const Sender &sender, uint32_t echoed_ms) {
    return sender.has_undo && (sender.undo_retrans == 0 || is_delayed(sender, echoed_ms));
}

} // namespace

void Simulation::begin_undo(Sender &sender) {
    sender.has_undo = true;
    sender.undo_marker = sender.snd_una;
    // Those that are out may yet show up as duplicates.
    sender.undo_retrans = static_cast<int32_t>(sender.retrans_out);
    if (sender.is_tlp_out && sender.is_tlp_retransmission)
        sender.undo_retrans++;
    if (sender.undo_retrans == 0)
        sender.undo_retrans = -1;
}

void Simulation::note_retransmission(Sender &sender, uint32_t count) {
    if (sender.retrans_stamp_ms == 0)
        sender.retrans_stamp_ms = stamp_ms();
    sender.undo_retrans = std::max(sender.undo_retrans, 0) + static_cast<int32_t>(count);
}

// The receiver has something twice: a retransmission was needless.
void Simulation::note_duplicate(Sender &sender, Block block, Ack &ack) {
    const auto count = static_cast<int32_t>(block.end - block.begin);
    sender.spurious_retransmits += static_cast<uint32_t>(count);
    // As tcp_dsack_seen: not where more is said to have come twice than was sent twice.
    if (sender.spurious_retransmits > sender.segments_sent_again)
        return;
    ack.is_probe_duplicate = count == 1 && sender.is_tlp_out && block.end == sender.tlp_high_seq;
    sender.has_duplicate |= sender.reorderings > 0 && !ack.is_probe_duplicate;
    sender.delivered += static_cast<uint32_t>(count);
    const bool is_known = !after(block.end, ack.prior_una);
    bool was_sent_again = false;
    for (uint32_t seq = block.begin; !is_known && seq != block.end; seq++)
        was_sent_again |= (sender.segment(seq).flags & Segment::retransmitted) != 0;
    if (sender.has_undo && sender.undo_retrans > 0 && after(block.end, sender.undo_marker) &&
        (is_known || was_sent_again))
        sender.undo_retrans = std::max(sender.undo_retrans - count, 0);
}

void Simulation::undo_reduction(Sender &sender, bool unmarks) {
    if (unmarks) {
        for (uint32_t seq = sender.snd_una; seq != sender.snd_nxt; seq++)
            sender.segment(seq).flags &= static_cast<uint8_t>(~Segment::lost);
        sender.lost_out = 0;
        sender.retransmit_hint = sender.rack_scan = sender.snd_una;
    }
    if (sender.prior_ssthresh != 0) {
        sender.snd_cwnd = sender.ca->undo_cwnd != nullptr
                              ? sender.ca->undo_cwnd(sender)
                              : std::max(sender.snd_cwnd, sender.prior_cwnd);
        sender.snd_ssthresh = std::max(sender.snd_ssthresh, sender.prior_ssthresh);
    }
    sender.has_undo = false;
    sender.has_rack_advanced = true; // it is to look again at what was taken for lost
}

// All of the recovery has been acknowledged.
void Simulation::undo_recovery(Sender &sender, const Ack &ack) {
    if (may_undo(sender, ack.echoed_ms))
        undo_reduction(sender, false);
    else if (sender.reorder_persists > 0)
        sender.reorder_persists--;
    set_state(sender, CaState::open);
}

bool Simulation::undo_by_duplicates(Sender &sender) {
    if (!sender.has_undo || sender.undo_retrans != 0)
        return false;
    sender.reorder_persists = reorder_recoveries;
    undo_reduction(sender, false);
    return true;
}

bool Simulation::undo_loss(Sender &sender, const Ack &ack, bool is_spurious) {
    if (!is_spurious && !may_undo(sender, ack.echoed_ms))
        return false;
    undo_reduction(sender, true);
    sender.backoff = 0;
    set_state(sender, CaState::open);
    return true;
}

// In a recovery: what was taken for lost has come, since it was late and not lost.
bool Simulation::undo_partial(Sender &sender, const Ack &ack) {
    if (!sender.has_undo || !is_delayed(sender, ack.echoed_ms))
        return false;
    check_reordering(sender, ack.prior_una);
    // Nothing is taken back before the retransmissions are accounted for.
    if (sender.retrans_out > 0)
        return true;
    sender.retrans_stamp_ms = 0;
    undo_reduction(sender, true);
    keep_open(sender);
    return true;
}

void Simulation::check_reordering(Sender &sender, uint32_t seq) {
    const uint32_t fack = sender.sacked_out == 0 ? sender.snd_una : sender.fack;
    if (!before(seq, fack))
        return;
    sender.reordering = std::min(std::max(sender.reordering, fack - seq), most_reordering);
    sender.reorderings++;
}

// RACK's window grows with each round trip that brings duplicates, and is kept for some recoveries.
void Simulation::adapt_reorder_window(Sender &sender, const Ack &ack) {
    if (ack.newest_sent_ns < 0)
        return;
    if (before(ack.newest_delivered, sender.reorder_delivered))
        sender.has_duplicate = false;
    if (sender.has_duplicate) {
        sender.reorder_steps = std::min(sender.reorder_steps + 1, most_reorder_steps);
        sender.has_duplicate = false;
        sender.reorder_delivered = sender.delivered;
        sender.reorder_persists = reorder_recoveries;
    } else if (sender.reorder_persists == 0) {
        sender.reorder_steps = 1;
    }
}

} // namespace dcgym::twin::packets
