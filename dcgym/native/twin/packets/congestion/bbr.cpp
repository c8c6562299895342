// SPDX-License-Identifier: Apache-2.0
// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00; Cardwell et al., ACM Queue 2016)
// with the units, constants and additions of Linux: it paces at the greatest rate of ten round
// trips, and bounds the window by twice that rate times the least round trip of ten seconds.
#include <algorithm>

#include "bbr.hpp"

namespace dcgym::twin::packets {
using namespace bbr;

namespace {

constexpr uint32_t policed_rtts = 48;

uint64_t pacing_rate_for(const Sender &sender, uint64_t bw, uint32_t gain) {
    return std::min(bytes_per_s(sender, bw, gain), sender.max_pacing_rate);
}

// Before the first measurement of bandwidth: the window in a round trip.
void pace_by_rtt(Sender &sender, Bbr &bbr) {
    uint64_t rtt_us = 1000;
    if (sender.srtt_us != 0) {
        rtt_us = std::max(sender.srtt_us >> 3, 1U);
        bbr.has_seen_rtt = true;
    }
    sender.pacing_rate = pacing_rate_for(sender, sender.snd_cwnd * bw_one / rtt_us, high_gain);
}

void set_pacing_rate(Sender &sender, Bbr &bbr, uint32_t bw, uint32_t gain) {
    if (!bbr.has_seen_rtt && sender.srtt_us != 0)
        pace_by_rtt(sender, bbr);
    const uint64_t rate = pacing_rate_for(sender, bw, gain);
    if (bbr.has_full_bw || rate > sender.pacing_rate)
        sender.pacing_rate = rate;
}

uint32_t bbr_min_tso_segments(const Sender &sender) {
    return sender.pacing_rate < one_segment_rate ? 1 : 2;
}

uint32_t bdp(const Bbr &bbr, uint32_t bw, uint32_t gain) {
    if (bbr.min_rtt_us == unlimited)
        return 10;
    const uint64_t packets = (uint64_t{bw} * bbr.min_rtt_us * gain) >> gain_shift;
    return static_cast<uint32_t>((packets + bw_one - 1) / bw_one);
}

uint32_t segments_goal(const Sender &sender) {
    const auto bytes = static_cast<uint32_t>(std::min(sender.pacing_rate >> 10, most_gso_bytes));
    const uint32_t segments = bytes / sender.mss_bytes;
    return std::min(std::max(segments, bbr_min_tso_segments(sender)), 0x7fU);
}

// Room for packets of several segments at both hosts, and for acknowledgements of two.
uint32_t quantize(const Sender &sender, const Bbr &bbr, uint32_t cwnd) {
    cwnd += 3 * segments_goal(sender);
    cwnd = (cwnd + 1) & ~1U;
    return cwnd + (bbr.mode == Mode::probe_bw && bbr.cycle_index == 0 ? 2 : 0);
}

uint32_t inflight(const Sender &sender, const Bbr &bbr, uint32_t bw, uint32_t gain) {
    return quantize(sender, bbr, bdp(bbr, bw, gain));
}

// What will be in flight when the next packet may leave.
uint32_t in_flight_at_departure(const Sender &sender, const Bbr &bbr, uint32_t now_in_flight) {
    const int64_t wait_us = std::max<int64_t>(sender.wstamp_ns - sender.now_ns, 0) / 1000;
    const auto delivered = static_cast<uint32_t>(
        uint64_t{bandwidth(bbr)} * static_cast<uint64_t>(wait_us) >> bw_shift);
    const uint32_t at_departure =
        now_in_flight + (bbr.pacing_gain > gain_one ? segments_goal(sender) : 0);
    return delivered >= at_departure ? 0 : at_departure - delivered;
}

void enter_startup(Bbr &bbr) {
    bbr.mode = Mode::startup;
}

void next_phase(const Sender &sender, Bbr &bbr) {
    bbr.cycle_index = (bbr.cycle_index + 1) % cycle_length;
    bbr.cycle_us = delivered_us(sender);
}

// Any phase but the one that drains: it would be needless.
void enter_probe_bw(Sender &sender, Bbr &bbr) {
    bbr.mode = Mode::probe_bw;
    bbr.cycle_index =
        cycle_length - 1 - static_cast<uint32_t>(sender.random.between(0, most_random_phases - 1));
    next_phase(sender, bbr);
}

void save_cwnd(const Sender &sender, Bbr &bbr) {
    if (bbr.prior_state < CaState::recovery && bbr.mode != Mode::probe_rtt)
        bbr.prior_cwnd = sender.snd_cwnd;
    else
        bbr.prior_cwnd = std::max(bbr.prior_cwnd, sender.snd_cwnd);
}

// A policer's rate is kept for some round trips; then the path is probed again.
void watch_policer(Sender &sender, Bbr &bbr, const RateSample &sample) {
    if (!bbr.is_policed)
        return sample_policer(sender, bbr, sample);
    if (bbr.mode != Mode::probe_bw || !bbr.is_round_start || ++bbr.policer_rtts < policed_rtts)
        return;
    forget_policer(sender, bbr);
    enter_probe_bw(sender, bbr);
}

void update_bandwidth(Sender &sender, Bbr &bbr, const RateSample &sample) {
    bbr.is_round_start = false;
    if (sample.delivered < 0 || sample.interval_us <= 0)
        return;
    if (!before(sample.prior_delivered, bbr.next_round_delivered)) {
        bbr.next_round_delivered = sender.delivered;
        bbr.rounds++;
        bbr.is_round_start = true;
        bbr.is_conserving = false;
    }
    watch_policer(sender, bbr, sample);
    const auto bw = static_cast<uint32_t>(static_cast<uint64_t>(sample.delivered) * bw_one /
                                          static_cast<uint64_t>(sample.interval_us));
    // A sender that had nothing to send shows a bound from below.
    if (!sample.is_app_limited || bw >= bbr.bw.best())
        bbr.bw.add(bbr.rounds, bw);
}

// How many more are acknowledged at a time than the bandwidth would have it.
void update_aggregation(const Sender &sender, Bbr &bbr, const RateSample &sample) {
    if (sample.acked_sacked == 0 || sample.delivered < 0 || sample.interval_us <= 0)
        return;
    if (bbr.is_round_start && ++bbr.extra_rtts >= aggregation_rtts) {
        bbr.extra_rtts = 0;
        bbr.extra_index ^= 1;
        bbr.extra_acked[bbr.extra_index] = 0;
    }
    const auto epoch_us = static_cast<uint64_t>(delivered_us(sender) - bbr.epoch_us);
    auto expected = static_cast<uint32_t>(uint64_t{bandwidth(bbr)} * epoch_us >> bw_shift);
    if (bbr.epoch_acked <= expected ||
        bbr.epoch_acked + sample.acked_sacked >= longest_epoch_packets) {
        bbr.epoch_acked = expected = 0;
        bbr.epoch_us = delivered_us(sender);
    }
    bbr.epoch_acked += sample.acked_sacked;
    const uint32_t extra = std::min(bbr.epoch_acked - expected, sender.snd_cwnd);
    uint32_t &most = bbr.extra_acked[bbr.extra_index];
    most = std::max(most, extra);
}

bool is_phase_over(const Sender &sender, const Bbr &bbr, const RateSample &sample) {
    const bool is_long = delivered_us(sender) - bbr.cycle_us > int64_t{bbr.min_rtt_us};
    if (bbr.pacing_gain == gain_one)
        return is_long;
    const uint32_t at_departure = in_flight_at_departure(sender, bbr, sample.prior_in_flight);
    const uint32_t bw = bbr.bw.best();
    // A small bucket or queue may not hold what the probe asks for: a loss ends it too.
    if (bbr.pacing_gain > gain_one)
        return is_long &&
               (sample.losses > 0 || at_departure >= inflight(sender, bbr, bw, bbr.pacing_gain));
    return is_long || at_departure <= inflight(sender, bbr, bw, gain_one);
}

void check_full_bandwidth(Bbr &bbr, const RateSample &sample) {
    if (bbr.has_full_bw || !bbr.is_round_start || sample.is_app_limited)
        return;
    const auto wanted = static_cast<uint32_t>(uint64_t{bbr.full_bw} * full_bw_growth >> gain_shift);
    if (bbr.bw.best() >= wanted) {
        bbr.full_bw = bbr.bw.best();
        bbr.full_bw_count = 0;
        return;
    }
    bbr.has_full_bw = ++bbr.full_bw_count >= full_bw_rounds;
}

void check_drain(Sender &sender, Bbr &bbr) {
    if (bbr.mode == Mode::startup && bbr.has_full_bw) {
        bbr.mode = Mode::drain;
        sender.snd_ssthresh = inflight(sender, bbr, bbr.bw.best(), gain_one);
    }
    if (bbr.mode == Mode::drain &&
        in_flight_at_departure(sender, bbr, sender.packets_in_flight()) <=
            inflight(sender, bbr, bbr.bw.best(), gain_one))
        enter_probe_bw(sender, bbr);
}

void check_probe_rtt_done(Sender &sender, Bbr &bbr) {
    if (bbr.probe_rtt_done_jiffies == 0 || !after(sender.now_jiffies(), bbr.probe_rtt_done_jiffies))
        return;
    bbr.min_rtt_jiffies = sender.now_jiffies();
    sender.snd_cwnd = std::max(sender.snd_cwnd, bbr.prior_cwnd);
    if (bbr.has_full_bw)
        enter_probe_bw(sender, bbr);
    else
        enter_startup(bbr);
}

// Four packets for 200 ms and a round trip, so that the queue drains and shows the path's own RTT.
void probe_rtt(Sender &sender, Bbr &bbr) {
    sender.app_limited = std::max(sender.delivered + sender.packets_in_flight(), 1U);
    if (bbr.probe_rtt_done_jiffies == 0) {
        if (sender.packets_in_flight() > least_cwnd)
            return;
        bbr.probe_rtt_done_jiffies = sender.now_jiffies() + probe_rtt_time;
        bbr.is_probe_rtt_round_done = false;
        bbr.next_round_delivered = sender.delivered;
        return;
    }
    bbr.is_probe_rtt_round_done |= bbr.is_round_start;
    if (bbr.is_probe_rtt_round_done)
        check_probe_rtt_done(sender, bbr);
}

void update_min_rtt(Sender &sender, Bbr &bbr, const RateSample &sample) {
    const uint32_t now = sender.now_jiffies();
    const bool is_old = after(now, bbr.min_rtt_jiffies + min_rtt_window);
    if (sample.rtt_us >= 0 && (static_cast<uint32_t>(sample.rtt_us) < bbr.min_rtt_us || is_old)) {
        bbr.min_rtt_us = static_cast<uint32_t>(sample.rtt_us);
        bbr.min_rtt_jiffies = now;
    }
    if (is_old && !bbr.is_idle_restart && bbr.mode != Mode::probe_rtt) {
        // In this order, as Linux: a window that a recovery has cut is not what it returns to.
        bbr.mode = Mode::probe_rtt;
        save_cwnd(sender, bbr);
        bbr.probe_rtt_done_jiffies = 0;
    }
    if (bbr.mode == Mode::probe_rtt)
        probe_rtt(sender, bbr);
    if (sample.delivered > 0)
        bbr.is_idle_restart = false;
}

void update_gains(Bbr &bbr) {
    switch (bbr.mode) {
    case Mode::startup:
        bbr.pacing_gain = bbr.cwnd_gain = high_gain;
        break;
    case Mode::drain:
        bbr.pacing_gain = drain_gain;
        bbr.cwnd_gain = high_gain;
        break;
    case Mode::probe_bw:
        bbr.pacing_gain = bbr.is_policed ? gain_one : cycle_gains[bbr.cycle_index];
        bbr.cwnd_gain = cycle_cwnd_gain;
        break;
    case Mode::probe_rtt:
        bbr.pacing_gain = bbr.cwnd_gain = gain_one;
        break;
    }
}

// In the first round trip of a recovery a packet leaves for each that arrives; returns whether.
bool conserves(Sender &sender, Bbr &bbr, const RateSample &sample, uint32_t &cwnd) {
    const CaState prior = bbr.prior_state, state = sender.state;
    if (sample.losses > 0)
        cwnd = static_cast<uint32_t>(std::max<int64_t>(int64_t{cwnd} - int64_t{sample.losses}, 1));
    if (state == CaState::recovery && prior != CaState::recovery) {
        bbr.is_conserving = true;
        bbr.next_round_delivered = sender.delivered;
        cwnd = sender.packets_in_flight() + sample.acked_sacked;
    } else if (prior >= CaState::recovery && state < CaState::recovery) {
        cwnd = std::max(cwnd, bbr.prior_cwnd);
        bbr.is_conserving = false;
    }
    bbr.prior_state = state;
    if (bbr.is_conserving)
        cwnd = std::max(cwnd, sender.packets_in_flight() + sample.acked_sacked);
    return bbr.is_conserving;
}

uint32_t aggregation_cwnd(const Bbr &bbr) {
    if (!bbr.has_full_bw)
        return 0;
    const auto most =
        static_cast<uint32_t>(uint64_t{bandwidth(bbr)} * most_aggregation_us / bw_one);
    return std::min(std::max(bbr.extra_acked[0], bbr.extra_acked[1]), most);
}

void set_cwnd(Sender &sender, Bbr &bbr, const RateSample &sample) {
    const uint32_t acked = sample.acked_sacked;
    uint32_t cwnd = sender.snd_cwnd;
    if (acked > 0 && !conserves(sender, bbr, sample, cwnd)) {
        const uint32_t target =
            quantize(sender, bbr, bdp(bbr, bandwidth(bbr), bbr.cwnd_gain) + aggregation_cwnd(bbr));
        if (bbr.has_full_bw)
            cwnd = std::min(cwnd + acked, target);
        else if (cwnd < target || sender.delivered < 10)
            cwnd += acked;
        cwnd = std::max(cwnd, least_cwnd);
    }
    sender.snd_cwnd = bbr.mode == Mode::probe_rtt ? std::min(cwnd, least_cwnd) : cwnd;
}

void bbr_cong_control(Sender &sender, const RateSample &sample) {
    auto &bbr = sender.private_state<Bbr>();
    update_bandwidth(sender, bbr, sample);
    update_aggregation(sender, bbr, sample);
    if (bbr.mode == Mode::probe_bw && is_phase_over(sender, bbr, sample))
        next_phase(sender, bbr);
    check_full_bandwidth(bbr, sample);
    check_drain(sender, bbr);
    update_min_rtt(sender, bbr, sample);
    update_gains(bbr);
    set_pacing_rate(sender, bbr, bandwidth(bbr), bbr.pacing_gain);
    set_cwnd(sender, bbr, sample);
}

void bbr_init(Sender &sender) {
    auto &bbr = sender.private_state<Bbr>();
    bbr = {};
    sender.snd_ssthresh = infinite_ssthresh;
    bbr.next_round_delivered = sender.delivered;
    bbr.min_rtt_us = sender.min_rtt_us != 0 ? sender.min_rtt_us : unlimited;
    bbr.min_rtt_jiffies = sender.now_jiffies();
    bbr.epoch_us = sender.now_ns / 1000;
    forget_policer(sender, bbr);
    enter_startup(bbr);
    pace_by_rtt(sender, bbr);
    sender.is_paced = true;
}

uint32_t bbr_ssthresh(Sender &sender) {
    save_cwnd(sender, sender.private_state<Bbr>());
    return sender.snd_ssthresh; // it shows when slow start ended, and nothing more
}

uint32_t bbr_undo_cwnd(Sender &sender) {
    auto &bbr = sender.private_state<Bbr>();
    bbr.full_bw = bbr.full_bw_count = 0; // what looked like losses may have hidden bandwidth
    forget_policer(sender, bbr);
    return sender.snd_cwnd;
}

void bbr_set_state(Sender &sender, CaState state) {
    if (state != CaState::loss)
        return;
    auto &bbr = sender.private_state<Bbr>();
    RateSample sample{};
    sample.losses = 1;
    bbr.prior_state = CaState::loss;
    bbr.full_bw = 0;
    bbr.is_round_start = true; // a timeout is the end of a round
    watch_policer(sender, bbr, sample);
}

// Data after a pause: at the bottleneck's rate at once, since the queue is empty.
void bbr_event(Sender &sender, CaEvent event) {
    if (event != CaEvent::tx_start || sender.app_limited == 0)
        return;
    auto &bbr = sender.private_state<Bbr>();
    bbr.is_idle_restart = true;
    bbr.epoch_us = sender.now_ns / 1000;
    bbr.epoch_acked = 0;
    if (bbr.mode == Mode::probe_bw)
        set_pacing_rate(sender, bbr, bandwidth(bbr), gain_one);
    else if (bbr.mode == Mode::probe_rtt)
        check_probe_rtt_done(sender, bbr);
}

} // namespace

const CongestionOps bbr_ops = {
    .ssthresh = bbr_ssthresh,
    .init = bbr_init,
    .set_state = bbr_set_state,
    .event = bbr_event,
    .cong_control = bbr_cong_control,
    .undo_cwnd = bbr_undo_cwnd,
    .min_tso_segments = bbr_min_tso_segments,
    .samples_rate = true,
};

} // namespace dcgym::twin::packets
