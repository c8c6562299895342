// SPDX-License-Identifier: Apache-2.0
// DCTCP (RFC 8257), as bpf/transport/dctcp.bpf.c has it; receiver.cpp has its echo.
#include <algorithm>

#include "control.hpp"
#include "dctcp.h"

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t gain_shift = 4; // g = 1/16, RFC 8257, section 4.2
constexpr uint32_t min_cwnd = 2;

struct Dctcp {
    uint32_t window_delivered, window_marked, window_end_seq;
    uint32_t alpha;
    uint32_t loss_cwnd, ssthresh, cwnd, cwnd_count, reduced_seq, seen_ce;
};

void start_window(const Sender &sender, Dctcp &state) {
    state.window_end_seq = sender.snd_nxt;
    state.window_delivered = sender.delivered;
    state.window_marked = sender.delivered_ce;
}

void dctcp_init(Sender &sender) {
    auto &state = sender.private_state<Dctcp>();
    state = {};
    state.alpha = DCGYM_ALPHA_ONE; // section 4.2: the conservative initial value
    state.ssthresh = infinite_ssthresh;
    state.reduced_seq = sender.snd_una;
    state.seen_ce = sender.delivered_ce;
    start_window(sender, state);
}

// The window is kept by cong_control: what the kernel asks for here it does not use.
uint32_t dctcp_ssthresh(Sender &sender) {
    return std::max(sender.snd_cwnd, min_cwnd);
}

// Section 3.3: alpha <- alpha * (1 - g) + g * M, once a window.
void dctcp_in_ack_event(Sender &sender) {
    auto &state = sender.private_state<Dctcp>();
    if (before(sender.snd_una, state.window_end_seq))
        return;
    const uint32_t delivered = sender.delivered - state.window_delivered;
    const uint32_t marked = sender.delivered_ce - state.window_marked;
    if (delivered == 0)
        return;
    const uint64_t fraction = (static_cast<uint64_t>(marked) << DCGYM_ALPHA_BITS) / delivered;
    const uint64_t alpha = state.alpha - (state.alpha >> gain_shift) + (fraction >> gain_shift);
    state.alpha = static_cast<uint32_t>(std::min<uint64_t>(alpha, DCGYM_ALPHA_ONE));
    start_window(sender, state);
}

// Section 3.5: a lost packet is answered by halving.
void react_to_loss(Sender &sender) {
    auto &state = sender.private_state<Dctcp>();
    state.loss_cwnd = sender.snd_cwnd;
    state.ssthresh = std::max(sender.snd_cwnd / 2, min_cwnd);
}

void dctcp_set_state(Sender &sender, CaState state) {
    if (state == CaState::recovery && sender.state != state)
        react_to_loss(sender);
}

void dctcp_event(Sender &sender, CaEvent event) {
    if (event == CaEvent::loss)
        react_to_loss(sender);
}

uint32_t reduce(Sender &sender, Dctcp &state, uint32_t cwnd) {
    const uint64_t cut =
        (static_cast<uint64_t>(cwnd) * state.alpha + DCGYM_ALPHA_ONE) >> (DCGYM_ALPHA_BITS + 1);
    state.loss_cwnd = cwnd;
    state.ssthresh = std::max(cwnd - static_cast<uint32_t>(cut), min_cwnd);
    state.reduced_seq = sender.snd_nxt;
    state.cwnd_count = 0;
    return state.ssthresh;
}

uint32_t grow(const Sender &sender, Dctcp &state, uint32_t cwnd, uint32_t acked) {
    const bool limited =
        cwnd < state.ssthresh ? cwnd < 2 * sender.max_packets_out : sender.is_cwnd_limited;
    if (!limited)
        return cwnd;
    if (cwnd < state.ssthresh)
        return std::min(cwnd + acked, state.ssthresh);
    state.cwnd_count += acked;
    if (state.cwnd_count < cwnd)
        return cwnd;
    state.cwnd_count -= cwnd;
    return cwnd + 1;
}

uint32_t dctcp_undo_cwnd(Sender &sender) {
    auto &state = sender.private_state<Dctcp>();
    state.ssthresh = std::max(state.ssthresh, state.loss_cwnd);
    return std::max(sender.snd_cwnd, state.loss_cwnd);
}

void dctcp_cong_control(Sender &sender, const RateSample &sample) {
    auto &state = sender.private_state<Dctcp>();
    uint32_t cwnd = sender.snd_cwnd;
    const bool marked = sender.delivered_ce != state.seen_ce;
    state.seen_ce = sender.delivered_ce;
    if (sender.state == CaState::recovery)
        cwnd = std::min(cwnd, state.ssthresh);
    else if (sender.state == CaState::loss)
        cwnd = grow(sender, state, cwnd, sample.acked_sacked);
    else if (!before(sender.snd_una, state.reduced_seq))
        cwnd =
            marked ? reduce(sender, state, cwnd) : grow(sender, state, cwnd, sample.acked_sacked);
    sender.snd_cwnd = state.cwnd = cwnd;
    update_pacing_rate(sender, cwnd, state.ssthresh);
}

} // namespace

const CongestionOps dctcp_ops = {
    .ssthresh = dctcp_ssthresh,
    .init = dctcp_init,
    .set_state = dctcp_set_state,
    .event = dctcp_event,
    .in_ack_event = dctcp_in_ack_event,
    .cong_control = dctcp_cong_control,
    .undo_cwnd = dctcp_undo_cwnd,
};

} // namespace dcgym::twin::packets
