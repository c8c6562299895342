// SPDX-License-Identifier: Apache-2.0
// CUBIC (RFC 9438) with the constants, units and HyStart of Linux.
#include <algorithm>

#include "control.hpp"

namespace dcgym::twin::packets {
namespace {

constexpr uint32_t hz = 250;
constexpr uint32_t time_bits = 10;           // time is in 1/1024 s
constexpr uint32_t beta = 717, scale = 1024; // 0.7
constexpr uint64_t c_times_1024 = 410;       // C = 0.4
constexpr uint64_t k_factor = (1ULL << (10 + 3 * time_bits)) / c_times_1024;
constexpr uint32_t friendly_scale = 8 * (scale + beta) / 3 / (scale - beta);
constexpr uint32_t hystart_low_window = 16, hystart_samples = 8;
constexpr uint32_t hystart_train_gap_us = 2000;
constexpr uint32_t gso_room_bytes = 79; // the link's limit less the longest header
constexpr uint32_t hystart_least_delay_us = 4000, hystart_most_delay_us = 16000;

struct Cubic {
    uint32_t cnt, last_max_cwnd, last_cwnd, last_time;
    uint32_t origin, k, epoch_start;
    uint32_t delay_min_us;
    uint32_t ack_cnt, tcp_cwnd;
    // HyStart
    bool found;
    uint32_t sample_cnt, round_start_us, end_seq, last_ack_us, curr_rtt_us;
};

uint32_t now_us(const Sender &sender) {
    return static_cast<uint32_t>(sender.now_ns / 1000);
}

uint32_t cube_root(uint64_t value) {
    uint64_t root = 0;
    for (int bit = 21; bit >= 0; bit--) {
        const uint64_t next = root | (1ULL << bit);
        if (next * next * next <= value)
            root = next;
    }
    return static_cast<uint32_t>(root);
}

void begin_round(Sender &sender, Cubic &cubic) {
    cubic.round_start_us = cubic.last_ack_us = now_us(sender);
    cubic.end_seq = sender.snd_nxt;
    cubic.curr_rtt_us = ~0U;
    cubic.sample_cnt = 0;
}

void cubic_init(Sender &sender) {
    auto &cubic = sender.private_state<Cubic>();
    cubic = {};
    begin_round(sender, cubic);
}

void begin_epoch(const Sender &sender, Cubic &cubic, uint32_t acked) {
    const uint32_t cwnd = sender.snd_cwnd;
    cubic.epoch_start = sender.now_jiffies();
    cubic.ack_cnt = acked;
    cubic.tcp_cwnd = cwnd;
    cubic.k = 0;
    cubic.origin = cwnd;
    if (cubic.last_max_cwnd > cwnd) {
        cubic.k = cube_root(k_factor * (cubic.last_max_cwnd - cwnd));
        cubic.origin = cubic.last_max_cwnd;
    }
}

uint32_t target(const Sender &sender, const Cubic &cubic) {
    const uint32_t tick_us = 1'000'000 / hz;
    uint64_t t = sender.now_jiffies() - cubic.epoch_start;
    t += (cubic.delay_min_us + tick_us - 1) / tick_us;
    t = (t << time_bits) / hz;
    const uint64_t offset = t < cubic.k ? cubic.k - t : t - cubic.k;
    const auto delta =
        static_cast<uint32_t>((c_times_1024 * offset * offset * offset) >> (10 + 3 * time_bits));
    return t < cubic.k ? cubic.origin - delta : cubic.origin + delta;
}

// No slower than Reno would be.
void be_friendly(const Sender &sender, Cubic &cubic) {
    const uint32_t cwnd = sender.snd_cwnd, delta = (cwnd * friendly_scale) >> 3;
    while (cubic.ack_cnt > delta && delta > 0) {
        cubic.ack_cnt -= delta;
        cubic.tcp_cwnd++;
    }
    if (cubic.tcp_cwnd > cwnd)
        cubic.cnt = std::min(cubic.cnt, cwnd / (cubic.tcp_cwnd - cwnd));
}

void update(const Sender &sender, Cubic &cubic, uint32_t acked) {
    const uint32_t cwnd = sender.snd_cwnd, now = sender.now_jiffies();
    cubic.ack_cnt += acked;
    if (cubic.last_cwnd == cwnd && now - cubic.last_time <= hz / 32)
        return;
    // Within one tick the cubic part stays as it is.
    if (cubic.epoch_start == 0 || now != cubic.last_time) {
        cubic.last_cwnd = cwnd;
        cubic.last_time = now;
        if (cubic.epoch_start == 0)
            begin_epoch(sender, cubic, acked);
        const uint32_t goal = target(sender, cubic);
        cubic.cnt = static_cast<int32_t>(goal - cwnd) > 0 ? cwnd / (goal - cwnd) : 100 * cwnd;
        // Nothing is known of the bandwidth before the first loss: 5 % a round trip.
        if (cubic.last_max_cwnd == 0 && cubic.cnt > 20)
            cubic.cnt = 20;
    }
    be_friendly(sender, cubic);
    cubic.cnt = std::max(cubic.cnt, 2U);
}

void cubic_cong_avoid(Sender &sender, uint32_t, uint32_t acked) {
    auto &cubic = sender.private_state<Cubic>();
    if (!sender.is_limited_by_cwnd())
        return;
    if (sender.in_slow_start()) {
        acked = slow_start(sender, acked);
        if (acked == 0)
            return;
    }
    update(sender, cubic, acked);
    cong_avoid_ai(sender, cubic.cnt, acked);
}

uint32_t cubic_ssthresh(Sender &sender) {
    auto &cubic = sender.private_state<Cubic>();
    const uint32_t cwnd = sender.snd_cwnd;
    cubic.epoch_start = 0;
    // Fast convergence: a flow that lost before it was back leaves room for others.
    cubic.last_max_cwnd = cwnd < cubic.last_max_cwnd ? cwnd * (scale + beta) / (2 * scale) : cwnd;
    return std::max(cwnd * beta / scale, 2U);
}

void cubic_set_state(Sender &sender, CaState state) {
    if (state == CaState::loss)
        cubic_init(sender);
}

// The end of slow start, by a train of acknowledgements as long as half a round trip, or by a
// round trip that has grown by an eighth.
void hystart(Sender &sender, Cubic &cubic, uint32_t delay_us) {
    if (after(sender.snd_una, cubic.end_seq))
        begin_round(sender, cubic);
    // A round counts from its first acknowledgement on, also where the window is still small.
    if (sender.snd_cwnd < hystart_low_window)
        return;
    const uint32_t now = now_us(sender);
    if (now - cubic.last_ack_us <= hystart_train_gap_us) {
        cubic.last_ack_us = now;
        uint32_t threshold = cubic.delay_min_us;
        const uint64_t packet_bytes = sender.skb_segments * sender.mss_bytes + gso_room_bytes;
        if (sender.pacing_rate != 0)
            threshold += static_cast<uint32_t>(
                std::min<uint64_t>(1000, packet_bytes * 4 * 1'000'000 / sender.pacing_rate));
        if (!sender.is_paced)
            threshold >>= 1;
        cubic.found = cubic.found || now - cubic.round_start_us > threshold;
    }
    cubic.curr_rtt_us = std::min(cubic.curr_rtt_us, delay_us);
    if (cubic.sample_cnt < hystart_samples) {
        cubic.sample_cnt++;
    } else {
        const uint32_t margin =
            std::clamp(cubic.delay_min_us >> 3, hystart_least_delay_us, hystart_most_delay_us);
        cubic.found = cubic.found || cubic.curr_rtt_us > cubic.delay_min_us + margin;
    }
    if (cubic.found)
        sender.snd_ssthresh = sender.snd_cwnd;
}

void cubic_acked(Sender &sender, const AckSample &sample) {
    auto &cubic = sender.private_state<Cubic>();
    if (sample.rtt_us < 0)
        return;
    // Not within a second of a recovery.
    if (cubic.epoch_start != 0 && sender.now_jiffies() - cubic.epoch_start < hz)
        return;
    const auto delay_us = std::max<uint32_t>(static_cast<uint32_t>(sample.rtt_us), 1);
    if (cubic.delay_min_us == 0 || cubic.delay_min_us > delay_us)
        cubic.delay_min_us = delay_us;
    if (!cubic.found && sender.in_slow_start())
        hystart(sender, cubic, delay_us);
}

} // namespace

const CongestionOps cubic_ops = {
    .ssthresh = cubic_ssthresh,
    .cong_avoid = cubic_cong_avoid,
    .init = cubic_init,
    .set_state = cubic_set_state,
    .pkts_acked = cubic_acked,
};

} // namespace dcgym::twin::packets
