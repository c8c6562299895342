// SPDX-License-Identifier: Apache-2.0
// What the parts of BBR share: its constants, its state and the filter of its bandwidth.
#pragma once

#include "control.hpp"

namespace dcgym::twin::packets::bbr {

constexpr uint32_t bw_shift = 24; // a bandwidth is in packets/us * 2^24
constexpr uint64_t bw_one = 1ULL << bw_shift;
constexpr uint32_t gain_shift = 8, gain_one = 1U << gain_shift;
constexpr uint32_t high_gain = gain_one * 2885 / 1000 + 1; // 2 / ln 2: twice as much a round trip
constexpr uint32_t drain_gain = gain_one * 1000 / 2885;
constexpr uint32_t cycle_cwnd_gain = 2 * gain_one;
constexpr uint32_t cycle_gains[] = {gain_one * 5 / 4, gain_one * 3 / 4, gain_one, gain_one,
                                    gain_one,         gain_one,         gain_one, gain_one};
constexpr uint32_t cycle_length = 8, most_random_phases = 7;
constexpr uint32_t bw_window_rtts = cycle_length + 2;
constexpr uint32_t full_bw_growth = gain_one * 5 / 4, full_bw_rounds = 3;
constexpr uint32_t hz = 1'000'000'000 / tick_ns;
constexpr uint32_t min_rtt_window = 10 * hz, probe_rtt_time = hz / 5;
constexpr uint32_t least_cwnd = 4;
constexpr uint32_t pacing_margin_percent = 1;
constexpr uint64_t one_segment_rate = 1'200'000 / 8; // bytes/s: below it packets are not aggregated
constexpr uint64_t most_gso_bytes = 65'536 - 1 - 320; // with the longest header of the kernel
// Aggregation of acknowledgements: what comes beyond the estimate is kept for 5 to 10 round trips.
constexpr uint32_t aggregation_rtts = 5, most_aggregation_us = 100'000;
constexpr uint32_t longest_epoch_packets = 1U << 20;

enum class Mode : uint8_t { startup, drain, probe_bw, probe_rtt };

// The greatest of a sliding window by its three best (Nichols; lib/win_minmax.c of Linux).
class MaxFilter {
  public:
    uint32_t best() const { return samples_[0].value; }
    void reset(uint32_t at, uint32_t value) {
        samples_[0] = samples_[1] = samples_[2] = {at, value};
    }
    void add(uint32_t at, uint32_t value) {
        const Sample sample{at, value};
        if (value >= samples_[0].value || at - samples_[2].at > bw_window_rtts)
            return reset(at, value);
        if (value >= samples_[1].value)
            samples_[1] = samples_[2] = sample;
        else if (value >= samples_[2].value)
            samples_[2] = sample;
        const uint32_t age = at - samples_[0].at;
        if (age > bw_window_rtts) {
            shift(sample);
            if (at - samples_[0].at > bw_window_rtts)
                shift(sample);
        } else if (samples_[1].at == samples_[0].at && age > bw_window_rtts / 4) {
            samples_[1] = samples_[2] = sample;
        } else if (samples_[2].at == samples_[1].at && age > bw_window_rtts / 2) {
            samples_[2] = sample;
        }
    }

  private:
    struct Sample {
        uint32_t at, value;
    };
    void shift(const Sample &sample) {
        samples_[0] = samples_[1];
        samples_[1] = samples_[2];
        samples_[2] = sample;
    }
    Sample samples_[3]{};
};

struct Bbr {
    int64_t cycle_us, epoch_us;
    MaxFilter bw;
    uint32_t rounds, next_round_delivered;
    uint32_t min_rtt_us, min_rtt_jiffies, probe_rtt_done_jiffies; // the last is 0 where not known
    uint32_t prior_cwnd, full_bw, full_bw_count;
    uint32_t pacing_gain, cwnd_gain, cycle_index;
    uint32_t epoch_acked, extra_acked[2], extra_rtts;
    uint32_t policer_bw, policer_rtts, policer_delivered, policer_lost;
    int64_t policer_ms;
    Mode mode;
    CaState prior_state;
    uint8_t extra_index;
    bool is_round_start, is_conserving, has_full_bw, has_seen_rtt, is_idle_restart;
    bool is_probe_rtt_round_done, is_sampling_policer, is_policed;
};

inline int64_t delivered_us(const Sender &sender) {
    return sender.delivered_ns / 1000;
}

inline uint32_t bandwidth(const Bbr &bbr) {
    return bbr.is_policed ? bbr.policer_bw : bbr.bw.best();
}

inline uint64_t bytes_per_s(const Sender &sender, uint64_t bw, uint32_t gain) {
    uint64_t rate = bw * sender.mss_bytes * gain >> gain_shift;
    rate *= 1'000'000 / 100 * (100 - pacing_margin_percent);
    return rate >> bw_shift;
}

// bbr_policer.cpp
void forget_policer(const Sender &sender, Bbr &bbr);
void sample_policer(const Sender &sender, Bbr &bbr, const RateSample &sample);

} // namespace dcgym::twin::packets::bbr
