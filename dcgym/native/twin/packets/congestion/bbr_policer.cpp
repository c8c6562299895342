// SPDX-License-Identifier: Apache-2.0
// BBR's answer to policers: while one binds, the sender keeps to its rate and does not probe.
#include "bbr.hpp"

namespace dcgym::twin::packets::bbr {
namespace {

// Policers: two intervals of the same rate, with more than a fifth lost, are a token bucket's.
constexpr uint32_t policer_least_rtts = 4, policer_most_rtts = 16;
constexpr uint32_t policer_loss_of_256 = 50, policer_ratio_of_256 = gain_one / 8;
constexpr uint64_t policer_difference = 4000 / 8; // bytes/s

void begin_policer_interval(const Sender &sender, Bbr &bbr) {
    bbr.policer_ms = delivered_us(sender) / 1000;
    bbr.policer_delivered = sender.delivered;
    bbr.policer_lost = sender.lost;
    bbr.policer_rtts = 0;
}

void policer_interval_done(const Sender &sender, Bbr &bbr, uint64_t bw) {
    if (bbr.policer_bw != 0) {
        const uint64_t difference = bw > bbr.policer_bw ? bw - bbr.policer_bw : bbr.policer_bw - bw;
        if (difference * gain_one <= uint64_t{policer_ratio_of_256} * bbr.policer_bw ||
            bytes_per_s(sender, difference, gain_one) <= policer_difference) {
            bbr.policer_bw = static_cast<uint32_t>((bw + bbr.policer_bw) >> 1);
            bbr.is_policed = true;
            bbr.pacing_gain = gain_one;
            bbr.policer_rtts = 0;
            return;
        }
    }
    bbr.policer_bw = static_cast<uint32_t>(bw);
    begin_policer_interval(sender, bbr);
}

} // namespace

void forget_policer(const Sender &sender, Bbr &bbr) {
    bbr.policer_bw = 0;
    bbr.is_policed = bbr.is_sampling_policer = false;
    begin_policer_interval(sender, bbr);
}

void sample_policer(const Sender &sender, Bbr &bbr, const RateSample &sample) {
    // An interval begins and ends with a loss.
    if (!bbr.is_sampling_policer) {
        if (sample.losses == 0)
            return;
        begin_policer_interval(sender, bbr);
        bbr.is_sampling_policer = true;
    }
    if (sample.is_app_limited)
        return forget_policer(sender, bbr);
    if (bbr.is_round_start)
        bbr.policer_rtts++;
    if (bbr.policer_rtts < policer_least_rtts)
        return;
    if (bbr.policer_rtts > policer_most_rtts)
        return forget_policer(sender, bbr);
    const uint64_t lost = sender.lost - bbr.policer_lost;
    const uint64_t delivered = sender.delivered - bbr.policer_delivered;
    if (sample.losses == 0 || delivered == 0 || lost * gain_one < policer_loss_of_256 * delivered)
        return;
    const int64_t interval_ms = delivered_us(sender) / 1000 - bbr.policer_ms;
    if (interval_ms >= 1)
        policer_interval_done(sender, bbr,
                              delivered * bw_one / (static_cast<uint64_t>(interval_ms) * 1000));
}

} // namespace dcgym::twin::packets::bbr
