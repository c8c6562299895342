/* A window of four packets, whatever happens: as much as four packets a round trip. */
#ifndef ACME_FOUR_H
#define ACME_FOUR_H

#include "window_control.h"

struct dcgym_acme_four {
    __u32 cwnd_packets;
    __u32 in_slow_start;
};

DCGYM_INLINE void dcgym_acme_four_begin(struct dcgym_acme_four *four, __u32 cwnd_packets) {
    four->cwnd_packets = dcgym_least(cwnd_packets, 4);
    four->in_slow_start = 0;
}

DCGYM_INLINE void dcgym_acme_four_on_ack(struct dcgym_acme_four *four,
                                         const struct dcgym_cc_ack *ack) {}

DCGYM_INLINE void dcgym_acme_four_on_loss(struct dcgym_acme_four *four, __u64 now_us,
                                          __u32 srtt_us) {}

DCGYM_INLINE void dcgym_acme_four_on_timeout(struct dcgym_acme_four *four) {}

DCGYM_INLINE void dcgym_acme_four_undo(struct dcgym_acme_four *four) {}

DCGYM_INLINE struct dcgym_cc_decision dcgym_acme_four_decide(const struct dcgym_acme_four *four,
                                                             __u32 mss_bytes, __u32 srtt_us) {
    struct dcgym_cc_decision decision = {};

    decision.cwnd_packets = four->cwnd_packets;
    return decision;
}

#endif
