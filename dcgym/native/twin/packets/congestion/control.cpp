// SPDX-License-Identifier: Apache-2.0
#include "control.hpp"

#include <algorithm>

namespace dcgym::twin::packets {

const CongestionOps *find_congestion_control(const std::string &name) {
    for (const CongestionOps *ops :
         {&reno_ops, &cubic_ops, &dctcp_ops, &new_vegas_ops, &bbr_ops, &swift_ops, &timely_ops,
          &theta_powertcp_ops, &copa_ops, &dcgym_agent_ops})
        if (name == ops->name)
            return ops;
    return nullptr;
}

uint32_t slow_start(Sender &sender, uint32_t acked) {
    const uint32_t cwnd = std::min(sender.snd_cwnd + acked, sender.snd_ssthresh);
    acked -= cwnd - sender.snd_cwnd;
    sender.snd_cwnd = cwnd;
    return acked;
}

// One packet more every w acknowledged ones; a credit collected at a larger w is spent at once.
void cong_avoid_ai(Sender &sender, uint32_t w, uint32_t acked) {
    if (sender.snd_cwnd_cnt >= w) {
        sender.snd_cwnd_cnt = 0;
        sender.snd_cwnd++;
    }
    sender.snd_cwnd_cnt += acked;
    if (sender.snd_cwnd_cnt >= w) {
        const uint32_t more = sender.snd_cwnd_cnt / w;
        sender.snd_cwnd_cnt -= more * w;
        sender.snd_cwnd += more;
    }
}

void update_pacing_rate(Sender &sender, uint32_t cwnd, uint32_t ssthresh) {
    if (sender.srtt_us == 0)
        return;
    const uint64_t percent = cwnd < ssthresh / 2 ? 200 : 120;
    const uint64_t rate = static_cast<uint64_t>(sender.mss_bytes) *
                          std::max(cwnd, sender.packets_out()) * 8 * 10'000 * percent /
                          sender.srtt_us;
    sender.pacing_rate = std::min(rate, sender.max_pacing_rate);
}

} // namespace dcgym::twin::packets
