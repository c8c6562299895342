// SPDX-License-Identifier: Apache-2.0
// The delivery rate that each acknowledgement shows (draft-cheng-iccrg-delivery-rate-estimation, as
// tcp_rate.c of Linux has it): packets delivered since the acknowledged one left, over the longer
// of the times that their sending and their acknowledgements took.
#include <algorithm>

#include "simulation.hpp"

namespace dcgym::twin::packets {

// Notes with segments that leave where the delivery stands.
void Simulation::mark_rate(Sender &sender, uint32_t seq, uint32_t count) {
    if (sender.packets_out() == 0)
        sender.first_sent_ns = sender.delivered_ns = now_ns_;
    if (sender.rate_marks.empty())
        sender.rate_marks.resize(sender.window.size());
    for (uint32_t i = seq; i != seq + count; i++)
        sender.rate_marks[i & (sender.window.size() - 1)] = {
            sender.first_sent_ns, sender.delivered_ns, sender.app_limited != 0};
}

RateSample Simulation::sample_rate(Sender &sender, const Ack &ack) {
    RateSample sample{};
    sample.acked_sacked = sender.delivered - ack.prior_delivered;
    sample.losses = sender.lost - ack.prior_lost;
    sample.rtt_us = static_cast<int32_t>(ack.rtt_us);
    sample.acked_retransmission = ack.acked_retransmission;
    sample.delivered = -1;
    sample.interval_us = -1;
    sample.prior_in_flight = ack.prior_in_flight;
    if (ack.newest_sent_ns >= 0) {
        sample.delivered = static_cast<int32_t>(sender.delivered - ack.newest_delivered);
        sample.since_sent_us = static_cast<uint32_t>(now_ns_ / 1000 - ack.newest_sent_ns / 1000);
    }
    if (!sender.ca->samples_rate)
        return sample;
    if (sender.app_limited != 0 && after(sender.delivered, sender.app_limited))
        sender.app_limited = 0;
    if (sample.acked_sacked > 0)
        sender.delivered_ns = now_ns_;
    if (ack.newest_sent_ns < 0)
        return sample;
    const RateMark &mark = sender.rate_marks[ack.newest_seq & (sender.window.size() - 1)];
    sender.first_sent_ns = ack.newest_sent_ns;
    sample.prior_delivered = ack.newest_delivered;
    sample.is_app_limited = mark.is_app_limited;
    const int64_t sending_us = ack.newest_sent_ns / 1000 - mark.first_sent_ns / 1000;
    const int64_t acking_us = now_ns_ / 1000 - mark.delivered_ns / 1000;
    const int64_t interval_us = std::max(sending_us, acking_us);
    // Shorter than any round trip: a packet that was sent twice and measured once.
    if (interval_us >= int64_t{sender.min_rtt_us})
        sample.interval_us = interval_us;
    return sample;
}

} // namespace dcgym::twin::packets
