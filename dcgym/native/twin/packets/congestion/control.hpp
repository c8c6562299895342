// SPDX-License-Identifier: Apache-2.0
// What a congestion control is: the callbacks of Linux' tcp_congestion_ops. The twin has each row
// of tables/congestion_controls.h, as SYMBOL_ops, and those of other packages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../sender.hpp"

struct dcgym_cc_traced;
struct dcgym_control_functions;

namespace dcgym::twin::packets {

struct Receiver;

enum class CaEvent : uint8_t { loss, complete_cwr, tx_start };

// Of one acknowledgement (struct ack_sample).
struct AckSample {
    uint32_t packets_acked;
    int32_t rtt_us; // negative where nothing could be measured
};

// Of one acknowledgement (struct rate_sample).
struct RateSample {
    uint32_t acked_sacked;
    uint32_t losses;
    int32_t rtt_us;
    bool acked_retransmission; // of the data that is acknowledged some was sent twice
    uint32_t since_sent_us;    // since the newest packet that was delivered had been sent
    int32_t delivered; // packets, since the acknowledged one was sent; negative where none was
    uint32_t prior_in_flight; // packets, before the acknowledgement
    // Below here for those that sample rates.
    uint32_t prior_delivered; // by the connection when the acknowledged one was sent
    int64_t interval_us;      // that the delivered ones took; negative where it is not known
    bool is_app_limited;      // the sender had nothing to send then
};

struct CongestionOps {
    uint32_t (*ssthresh)(Sender &);
    // Below here each may be left out.
    void (*cong_avoid)(Sender &, uint32_t ack, uint32_t acked) = nullptr;
    void (*init)(Sender &) = nullptr;
    void (*set_state)(Sender &, CaState) = nullptr;
    void (*event)(Sender &, CaEvent) = nullptr;
    void (*in_ack_event)(Sender &) = nullptr;
    void (*pkts_acked)(Sender &, const AckSample &) = nullptr;
    // In the place of cong_avoid and of the kernel's own reductions.
    void (*cong_control)(Sender &, const RateSample &) = nullptr;
    // The window of before the last reduction; else the larger of now and then.
    uint32_t (*undo_cwnd)(Sender &) = nullptr;
    // Least segments of a packet, by the pacing rate; else sysctl tcp_min_tso_segs.
    uint32_t (*min_tso_segments)(const Sender &) = nullptr;
    bool samples_rate = false;
    // Of those of window_control.h: what they answer to recorded events, for tests.
    void (*replay)(dcgym_cc_traced *events, size_t count) = nullptr;
    const dcgym_control_functions *functions = nullptr; // of those of another package
};

struct Control {
    const CongestionOps *ops = nullptr;
    bool needs_ecn = false;
};

// Without ops where there is none of that name.
Control find_congestion_control(const std::string &name);

// Those of another package, which stay where they are; a name that is known gets new functions.
void add_congestion_control(const std::string &name, const dcgym_control_functions &functions);

#define DCGYM_ROW(symbol, ...) extern const CongestionOps symbol##_ops;
#include "tables/congestion_controls.h"

// Slow start and additive increase as the kernel's helpers do them.
uint32_t slow_start(Sender &sender, uint32_t acked);
void cong_avoid_ai(Sender &sender, uint32_t w, uint32_t acked);
void reno_cong_avoid(Sender &sender, uint32_t ack, uint32_t acked);
uint32_t reno_ssthresh(Sender &sender);
// Twice the window a round trip in slow start, else 1.2 times.
void update_pacing_rate(Sender &sender, uint32_t cwnd, uint32_t ssthresh);

} // namespace dcgym::twin::packets
