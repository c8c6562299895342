// SPDX-License-Identifier: Apache-2.0
// Losses: RACK (RFC 8985), proportional rate reduction (RFC 6937) and the states of Linux.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {
namespace {

// As tcp_current_ssthresh.
uint32_t current_ssthresh(const Sender &sender) {
    if (sender.in_cwnd_reduction())
        return sender.snd_ssthresh;
    return std::max(sender.snd_ssthresh, (sender.snd_cwnd >> 1) + (sender.snd_cwnd >> 2));
}

// As tcp_any_retrans_done.
bool has_retransmissions(Sender &sender) {
    return sender.retrans_out > 0 ||
           (sender.packets_out() > 0 &&
            (sender.segment(sender.snd_una).flags & Segment::retransmitted));
}

bool is_sent_after(int64_t a_ns, uint32_t a_seq, int64_t b_ns, uint32_t b_seq) {
    return a_ns > b_ns || (a_ns == b_ns && after(a_seq, b_seq));
}

} // namespace

void Simulation::set_state(Sender &sender, CaState state) {
    if (sender.ca->set_state != nullptr)
        sender.ca->set_state(sender, state);
    sender.state = state;
}

void Simulation::advance_rack(Sender &sender, const Segment &segment, uint32_t seq) {
    const int64_t rtt_ns = now_ns_ - segment.sent_ns;
    // Too soon after its retransmission: the first copy came.
    if ((segment.flags & Segment::retransmitted) && rtt_ns < int64_t{1000} * sender.min_rtt_us)
        return;
    sender.has_rack_advanced = true;
    sender.rack_rtt_ns = rtt_ns;
    if (is_sent_after(segment.sent_ns, seq, sender.rack_sent_ns, sender.rack_seq)) {
        sender.rack_sent_ns = segment.sent_ns;
        sender.rack_seq = seq;
    }
}

int64_t Simulation::reorder_window_ns(const Sender &sender) const {
    if (sender.reorderings == 0 &&
        (sender.state >= CaState::recovery || sender.sacked_out >= sender.reordering))
        return 0;
    return int64_t{1000} *
           std::min((sender.min_rtt_us >> 2) * sender.reorder_steps, sender.srtt_us >> 3);
}

void Simulation::lose(Sender &sender, uint32_t seq) {
    Segment &segment = sender.segment(seq);
    if (segment.flags & Segment::in_retransmission) {
        segment.flags &= static_cast<uint8_t>(~Segment::in_retransmission);
        sender.retrans_out--;
    }
    if (!(segment.flags & Segment::lost)) {
        segment.flags |= Segment::lost;
        sender.lost_out++;
    }
    sender.lost++;
    if (before(seq, sender.retransmit_hint))
        sender.retransmit_hint = seq;
}

// Whether something sent later has come, and how long to wait yet where that may be reordering.
bool Simulation::is_overdue(const Sender &sender, const Segment &segment, uint32_t seq,
                            int64_t window_ns, int64_t &left_ns) const {
    left_ns = 0;
    if (!is_sent_after(sender.rack_sent_ns, sender.rack_seq, segment.sent_ns, seq))
        return false;
    left_ns = sender.rack_rtt_ns + window_ns - (now_ns_ - segment.sent_ns);
    return true;
}

// Returns how long the last of those that may still come is to be waited for; 0 for none.
int64_t Simulation::mark_lost(Sender &sender, bool &lost_again) {
    const int64_t window_ns = reorder_window_ns(sender);
    int64_t wait_ns = 0, left_ns = 0;
    if (before(sender.rack_scan, sender.snd_una))
        sender.rack_scan = sender.snd_una;
    bool is_settled = true;
    for (uint32_t seq = sender.rack_scan; seq != sender.snd_nxt; seq++) {
        const Segment &segment = sender.segment(seq);
        constexpr uint8_t known = Segment::sacked | Segment::lost | Segment::retransmitted;
        if (!(segment.flags & known)) {
            if (!is_overdue(sender, segment, seq, window_ns, left_ns))
                break;
            if (left_ns <= 0)
                lose(sender, seq);
            else
                wait_ns = std::max(wait_ns, left_ns);
            is_settled = is_settled && left_ns <= 0;
        }
        if (is_settled)
            sender.rack_scan = seq + 1;
    }
    for (auto &sent = sender.retransmissions; !sent.empty(); sent.pop()) {
        const Retransmission first = sent.front();
        if (before(first.seq, sender.snd_una))
            continue;
        const Segment &segment = sender.segment(first.seq);
        if (!(segment.flags & Segment::in_retransmission) || segment.sent_ns != first.sent_ns)
            continue;
        if (!is_overdue(sender, segment, first.seq, window_ns, left_ns))
            break;
        if (left_ns > 0) {
            wait_ns = std::max(wait_ns, left_ns);
            break;
        }
        lose(sender, first.seq);
        lost_again = true;
    }
    return wait_ns;
}

void Simulation::identify_loss(uint32_t slot, Ack &ack) {
    Sender &sender = flows_[slot].sender;
    if (!sender.has_rack_advanced || sender.packets_out() == 0)
        return;
    sender.has_rack_advanced = false;
    const int64_t wait_ns = mark_lost(sender, ack.lost_retransmission);
    if (wait_ns > 0)
        set_timer(slot, Timer::reorder, wait_ns + least_timeout_ns);
    else if (sender.timer == Timer::reorder)
        rearm_retransmit(slot);
}

void Simulation::begin_reduction(Sender &sender) {
    sender.high_seq = sender.snd_nxt;
    sender.is_tlp_out = false;
    sender.snd_cwnd_cnt = 0;
    sender.prior_cwnd = sender.snd_cwnd;
    sender.prr_delivered = sender.prr_out = 0;
    sender.snd_ssthresh = sender.ca->ssthresh(sender);
}

void Simulation::end_reduction(Sender &sender) {
    if (sender.ca->cong_control != nullptr)
        return;
    if (sender.snd_ssthresh < infinite_ssthresh &&
        (sender.state == CaState::cwr || sender.has_undo))
        sender.snd_cwnd = sender.snd_ssthresh;
    if (sender.ca->event != nullptr)
        sender.ca->event(sender, CaEvent::complete_cwr);
}

void Simulation::enter_recovery(Sender &sender, bool echo) {
    sender.prior_ssthresh = 0;
    begin_undo(sender);
    if (!sender.in_cwnd_reduction()) {
        if (!echo)
            sender.prior_ssthresh = current_ssthresh(sender);
        begin_reduction(sender);
    } else {
        sender.high_seq = sender.snd_nxt;
    }
    set_state(sender, CaState::recovery);
}

bool Simulation::enter_loss(Sender &sender) {
    sender.is_frto = sender.state < CaState::recovery || sender.backoff > 0;
    const bool is_new = sender.state <= CaState::disorder ||
                        !after(sender.high_seq, sender.snd_una) ||
                        (sender.state == CaState::loss && sender.backoff == 0);
    for (uint32_t seq = sender.snd_una; seq != sender.snd_nxt; seq++) {
        const Segment &segment = sender.segment(seq);
        const bool is_recent =
            seq != sender.snd_una && now_ns_ - segment.sent_ns < sender.rack_rtt_ns;
        if (!(segment.flags & Segment::sacked) && !is_recent)
            lose(sender, seq);
    }
    sender.retransmit_hint = sender.snd_una;
    if (is_new) {
        sender.prior_ssthresh = current_ssthresh(sender);
        sender.prior_cwnd = sender.snd_cwnd;
        sender.snd_ssthresh = sender.ca->ssthresh(sender);
        if (sender.ca->event != nullptr)
            sender.ca->event(sender, CaEvent::loss);
        begin_undo(sender);
    }
    sender.snd_cwnd = sender.packets_in_flight() + 1;
    sender.snd_cwnd_cnt = 0;
    sender.high_seq = sender.snd_nxt;
    sender.is_tlp_out = false;
    set_state(sender, CaState::loss);
    return is_new;
}

void Simulation::keep_open(Sender &sender) {
    const bool is_open = sender.sacked_out + sender.lost_out == 0 && !has_retransmissions(sender);
    const CaState state = is_open ? CaState::open : CaState::disorder;
    if (sender.state == state)
        return;
    set_state(sender, state);
    sender.high_seq = sender.snd_nxt;
}

// As tcp_try_to_open.
void Simulation::open(Sender &sender, const Ack &ack) {
    if (!has_retransmissions(sender))
        sender.retrans_stamp_ms = 0;
    if (ack.echo && sender.state < CaState::cwr) {
        sender.prior_ssthresh = 0;
        sender.has_undo = false;
        begin_reduction(sender);
        set_state(sender, CaState::cwr);
    }
    if (sender.state != CaState::cwr)
        keep_open(sender);
}

// All that was out when a reduction began has been acknowledged.
void Simulation::leave_states(Sender &sender, const Ack &ack) {
    if (sender.state == CaState::cwr) {
        if (sender.snd_una == sender.high_seq)
            return;
        end_reduction(sender);
        set_state(sender, CaState::open);
    } else if (sender.state == CaState::recovery) {
        undo_recovery(sender, ack);
        end_reduction(sender);
    }
}

// As tcp_process_loss: F-RTO sends something new after a timeout, and sees what comes back.
void Simulation::process_loss(Sender &sender, Ack &ack) {
    const bool is_recovered = !before(sender.snd_una, sender.high_seq);
    if (ack.advanced && undo_loss(sender, ack, false))
        return;
    if (sender.is_frto) {
        if (ack.acked_original && undo_loss(sender, ack, true))
            return;
        if (after(sender.snd_nxt, sender.high_seq)) {
            if (ack.sacked || !ack.advanced)
                sender.is_frto = false;
        } else if (ack.advanced && !is_recovered) {
            sender.high_seq = sender.snd_nxt;
            if (sender.snd_nxt != sender.total && before(sender.snd_nxt, sender.window_end)) {
                ack.sends_new = true;
                return;
            }
            sender.is_frto = false;
        }
    }
    if (is_recovered)
        return undo_recovery(sender, ack);
    ack.retransmits = true;
}

// As tcp_fastretrans_alert.
void Simulation::alert(uint32_t slot, Ack &ack) {
    Sender &sender = flows_[slot].sender;
    if (ack.echo)
        sender.prior_ssthresh = 0;
    if (sender.state == CaState::open)
        sender.retrans_stamp_ms = 0;
    else if (!before(sender.snd_una, sender.high_seq))
        leave_states(sender, ack);
    if (sender.state == CaState::recovery) {
        if (ack.advanced && undo_partial(sender, ack))
            return;
        if (undo_by_duplicates(sender))
            open(sender, ack);
        identify_loss(slot, ack);
        if (sender.state == CaState::recovery) {
            ack.retransmits = true;
            return;
        }
    } else {
        if (sender.state == CaState::loss)
            process_loss(sender, ack);
        else if (sender.state <= CaState::disorder)
            undo_by_duplicates(sender);
        identify_loss(slot, ack);
        if (sender.state == CaState::loss && !ack.lost_retransmission)
            return;
    }
    if (sender.lost_out == 0)
        return open(sender, ack);
    enter_recovery(sender, ack.echo);
    ack.sends_new = false;
    ack.retransmits = true;
}

// As tcp_cwnd_reduction.
void Simulation::reduce_cwnd(Sender &sender, uint32_t acked, uint32_t losses, bool una_advanced) {
    if (acked == 0 || sender.prior_cwnd == 0)
        return;
    const auto in_flight = static_cast<int64_t>(sender.packets_in_flight());
    const int64_t room = static_cast<int64_t>(sender.snd_ssthresh) - in_flight;
    sender.prr_delivered += acked;
    int64_t send = 0;
    if (room < 0) {
        const uint64_t allowed =
            (uint64_t{sender.snd_ssthresh} * sender.prr_delivered + sender.prior_cwnd - 1) /
            sender.prior_cwnd;
        send = static_cast<int64_t>(allowed) - sender.prr_out;
    } else {
        send =
            std::max<int64_t>(static_cast<int64_t>(sender.prr_delivered) - sender.prr_out, acked);
        if (una_advanced && losses == 0)
            send++;
        send = std::min(room, send);
    }
    send = std::max<int64_t>(send, sender.prr_out != 0 ? 0 : 1);
    sender.snd_cwnd = static_cast<uint32_t>(in_flight + send);
}

// As tcp_process_tlp_ack.
void Simulation::answer_probe(uint32_t slot, const Ack &ack) {
    Sender &sender = flows_[slot].sender;
    if (before(sender.snd_una, sender.tlp_high_seq))
        return;
    if (!sender.is_tlp_retransmission || ack.is_probe_duplicate) {
        sender.is_tlp_out = false;
    } else if (after(sender.snd_una, sender.tlp_high_seq)) {
        // The probe made good a loss that nothing else told of.
        begin_reduction(sender);
        set_state(sender, CaState::cwr);
        end_reduction(sender);
        keep_open(sender);
    } else if (!ack.advanced && !ack.sacked) {
        sender.is_tlp_out = false;
    }
}

} // namespace dcgym::twin::packets
