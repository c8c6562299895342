// SPDX-License-Identifier: Apache-2.0
// TCP New Vegas, with the rules and constants of bpf/transport/new_vegas.bpf.c, which says where
// they come from: the reached rate times the least RTT is the window that would have sufficed.
#include <algorithm>

#include "control.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t pad = 10, pad_buffer = 2; // packets that may wait in the network
constexpr uint32_t rtt_weight = 128;         // of 256
constexpr uint32_t decrease_per_128 = 38, loss_per_1024 = 819;
constexpr uint32_t min_rtt_period_ms = 5000, first_period_ms = 2000;
constexpr uint32_t decrease_samples = 60, increase_samples = 20, slow_start_samples = 30;
constexpr uint32_t decrease_rounds = 2, stop_rounds = 10, calm_decisions = 8;
constexpr int8_t most_slowed = 8;
constexpr uint32_t least_cwnd_first = 4, least_cwnd_step = 2, least_cwnd_bound = 81;
constexpr uint32_t no_rtt = 0xffffffff, min_cwnd = 2;

struct NewVegas {
    uint64_t max_rate; // bytes/s, since the last decision
    uint32_t min_rtt_us, next_min_rtt_us;
    uint32_t average_rtt_us; // 0: not measured
    uint32_t period_end_ms, round_end_seq, seen_una;
    uint32_t ssthresh, cwnd_count, loss_cwnd;
    uint32_t least_cwnd, samples, rounds, calm;
    int8_t slowed; // growth is one packet in 2^slowed RTTs, more with each timeout
    bool may_grow, is_disturbed;
};

uint32_t now_ms(const Sender &sender) {
    return static_cast<uint32_t>(sender.now_ns / 1'000'000);
}

void forget_measurements(const Sender &sender, NewVegas &state) {
    state.max_rate = 0;
    state.average_rtt_us = 0;
    state.round_end_seq = state.seen_una = sender.snd_una;
    state.samples = state.rounds = state.calm = 0;
    state.is_disturbed = false;
}

void new_vegas_init(Sender &sender) {
    auto &state = sender.private_state<NewVegas>();
    state = {};
    forget_measurements(sender, state);
    state.min_rtt_us = state.next_min_rtt_us = no_rtt;
    state.period_end_ms = now_ms(sender) + first_period_ms;
    state.ssthresh = infinite_ssthresh;
    state.least_cwnd = least_cwnd_first;
    state.may_grow = true;
}

uint32_t new_vegas_ssthresh(Sender &sender) {
    return std::max(sender.snd_cwnd, min_cwnd);
}

void react_to_loss(Sender &sender) {
    auto &state = sender.private_state<NewVegas>();
    state.loss_cwnd = sender.snd_cwnd;
    state.ssthresh = std::max(
        static_cast<uint32_t>((uint64_t{sender.snd_cwnd} * loss_per_1024) >> 10), min_cwnd);
}

void new_vegas_event(Sender &sender, CaEvent event) {
    if (event == CaEvent::loss)
        react_to_loss(sender);
}

void new_vegas_set_state(Sender &sender, CaState next) {
    auto &state = sender.private_state<NewVegas>();
    if (next == sender.state)
        return;
    if (next == CaState::open && state.is_disturbed)
        return forget_measurements(sender, state);
    if (next == CaState::open || next == CaState::disorder)
        return;
    if (next != CaState::loss)
        react_to_loss(sender);
    else if (state.slowed < most_slowed)
        state.slowed++;
    state.is_disturbed = true;
    state.may_grow = false;
}

// The least RTT is kept for one period and for the next: routes change, and so does the least RTT.
void age_min_rtt(Sender &sender, NewVegas &state) {
    const uint32_t now = now_ms(sender);
    if (before(now, state.period_end_ms))
        return;
    state.min_rtt_us = state.next_min_rtt_us;
    state.next_min_rtt_us = no_rtt;
    state.period_end_ms =
        now + min_rtt_period_ms * 3 / 4 +
        static_cast<uint32_t>(sender.random.between(0, min_rtt_period_ms / 2 - 1));
    state.least_cwnd = std::max(state.least_cwnd / 2, least_cwnd_first);
}

bool measure(Sender &sender, NewVegas &state, const RateSample &sample) {
    if (sample.rtt_us < 0 || sample.delivered <= 0)
        return false;
    auto rtt_us = static_cast<uint32_t>(std::max(sample.rtt_us, 1));
    if (state.average_rtt_us != 0)
        rtt_us = static_cast<uint32_t>(
            (uint64_t{rtt_us} * rtt_weight + uint64_t{state.average_rtt_us} * (256 - rtt_weight)) /
            256);
    else
        state.min_rtt_us = rtt_us;
    state.average_rtt_us = std::max(rtt_us, 1U);
    const uint64_t rate = static_cast<uint64_t>(sample.delivered) * sender.mss_bytes * 1'000'000 /
                          state.average_rtt_us;
    state.max_rate = std::max(state.max_rate, rate);
    state.samples = std::min(state.samples + 1, 255U);
    state.min_rtt_us = std::min(state.min_rtt_us, rtt_us);
    state.next_min_rtt_us = std::min(state.next_min_rtt_us, rtt_us);
    age_min_rtt(sender, state);
    return true;
}

// One measurement in a whole RTT, for a whole window: too few come for this window.
bool raise_least_cwnd(const Sender &sender, NewVegas &state, uint32_t acked) {
    if (state.samples != 1 || state.least_cwnd >= least_cwnd_bound || acked + 1 < state.least_cwnd)
        return false;
    state.least_cwnd = std::min(state.least_cwnd + least_cwnd_step, least_cwnd_bound);
    state.round_end_seq = sender.snd_nxt + state.least_cwnd;
    state.samples = 0;
    state.may_grow = true;
    return true;
}

bool may_decrease(NewVegas &state) {
    if (state.rounds < decrease_rounds)
        return false;
    if (state.ssthresh == infinite_ssthresh)
        return state.samples >= slow_start_samples;
    if (state.samples >= decrease_samples)
        return true;
    if (state.rounds > stop_rounds)
        state.may_grow = false;
    return false;
}

uint32_t decrease(NewVegas &state, uint32_t cwnd, uint32_t wanted) {
    const uint32_t excess = cwnd - wanted;
    state.may_grow = false;
    state.ssthresh = std::max(wanted, min_cwnd);
    state.calm = 0;
    if (excess <= 2)
        return wanted;
    return cwnd - std::max((excess * decrease_per_128) >> 7, 2U);
}

void allow_growth(NewVegas &state) {
    state.may_grow = true;
    state.calm++;
    if (state.slowed > 0 && state.calm > calm_decisions) {
        state.slowed--;
        state.calm = 0;
    }
}

// Once an RTT: compare the window with the one that the reached rate needs.
uint32_t decide(const Sender &sender, NewVegas &state, uint32_t cwnd) {
    const auto wanted = static_cast<uint32_t>(
        state.max_rate * state.min_rtt_us / 1'000'000 / sender.mss_bytes + pad);
    if (cwnd > wanted) {
        if (!may_decrease(state))
            return cwnd;
        cwnd = decrease(state, cwnd, wanted);
    } else if (cwnd + pad_buffer <= wanted) {
        if (state.samples < increase_samples)
            return cwnd;
        allow_growth(state);
    } else {
        return cwnd;
    }
    state.samples = state.rounds = 0;
    state.max_rate = 0;
    return std::max(cwnd, state.least_cwnd);
}

uint32_t avoid(Sender &sender, NewVegas &state, uint32_t cwnd, const RateSample &sample) {
    const uint32_t acked = sender.snd_una - state.seen_una;
    state.seen_una = sender.snd_una;
    if (!measure(sender, state, sample) || !before(state.round_end_seq, sender.snd_una))
        return cwnd;
    state.round_end_seq = sender.snd_nxt;
    state.rounds = std::min(state.rounds + 1, 255U);
    return raise_least_cwnd(sender, state, acked) ? cwnd : decide(sender, state, cwnd);
}

uint32_t grow(const Sender &sender, NewVegas &state, uint32_t cwnd, uint32_t acked) {
    const bool is_limited =
        cwnd < state.ssthresh ? cwnd < 2 * sender.max_packets_out : sender.is_cwnd_limited;
    if (!state.may_grow || !is_limited)
        return cwnd;
    if (cwnd < state.ssthresh)
        return std::min(cwnd + acked, state.ssthresh);
    const uint32_t step = std::max(cwnd << state.slowed, 4U);
    state.cwnd_count += acked;
    const uint32_t steps = state.cwnd_count / step;
    state.cwnd_count -= steps * step;
    return cwnd + steps;
}

uint32_t new_vegas_undo_cwnd(Sender &sender) {
    auto &state = sender.private_state<NewVegas>();
    state.ssthresh = std::max(state.ssthresh, state.loss_cwnd);
    return std::max(sender.snd_cwnd, state.loss_cwnd);
}

void new_vegas_cong_control(Sender &sender, const RateSample &sample) {
    auto &state = sender.private_state<NewVegas>();
    uint32_t cwnd = sender.snd_cwnd;
    if (sender.in_cwnd_reduction())
        cwnd = std::min(cwnd, state.ssthresh);
    if (sender.state != CaState::recovery && sender.state != CaState::loss) {
        cwnd = avoid(sender, state, cwnd, sample);
        cwnd = grow(sender, state, cwnd, sample.acked_sacked);
    }
    sender.snd_cwnd = cwnd;
    update_pacing_rate(sender, cwnd, state.ssthresh);
}

} // namespace

const CongestionOps new_vegas_ops = {
    .ssthresh = new_vegas_ssthresh,
    .init = new_vegas_init,
    .set_state = new_vegas_set_state,
    .event = new_vegas_event,
    .cong_control = new_vegas_cong_control,
    .undo_cwnd = new_vegas_undo_cwnd,
};

} // namespace dcgym::twin::packets
