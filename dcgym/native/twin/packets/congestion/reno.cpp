// SPDX-License-Identifier: Apache-2.0
// Reno (RFC 5681): one packet a round trip, half of the window after a loss.
#include <algorithm>

#include "control.hpp"

namespace dcgym::twin::packets {

uint32_t reno_ssthresh(Sender &sender) {
    return std::max(sender.snd_cwnd / 2, 2U);
}

void reno_cong_avoid(Sender &sender, uint32_t, uint32_t acked) {
    if (!sender.is_limited_by_cwnd())
        return;
    if (sender.in_slow_start()) {
        acked = slow_start(sender, acked);
        if (acked == 0)
            return;
    }
    cong_avoid_ai(sender, sender.snd_cwnd, acked);
}

const CongestionOps reno_ops = {
    .ssthresh = reno_ssthresh,
    .cong_avoid = reno_cong_avoid,
};

} // namespace dcgym::twin::packets
