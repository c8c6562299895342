// SPDX-License-Identifier: Apache-2.0
// The callbacks of an algorithm of include/window_control.h, as bpf/transport/window_control.bpf.c
// has them. An Algorithm names the state and the functions; header_control.hpp makes it of a
// header.
#pragma once

#include <algorithm>
#include <span>

#include "control.hpp"
#include "window_control.h"

namespace dcgym::twin::packets {

template <typename Algorithm> struct WindowControl {
    using State = typename Algorithm::State;

    static dcgym_cc_decision decide(Sender &sender) {
        return Algorithm::decide(&sender.private_state<State>(), sender.mss_bytes,
                                 sender.srtt_us >> 3);
    }

    static bool in_slow_start(Sender &sender) {
        return Algorithm::in_slow_start(&sender.private_state<State>()) != 0;
    }

    static dcgym_cc_ack ack_of(Sender &sender, const RateSample &sample) {
        dcgym_cc_ack ack{};
        ack.now_us = static_cast<uint64_t>(sender.now_ns / 1000);
        const int32_t measured_us = sample.acked_retransmission ? 0 : std::max(sample.rtt_us, 0);
        ack.rtt_us = dcgym_cc_rtt_us(static_cast<uint32_t>(measured_us), sample.acked_sacked,
                                     sample.since_sent_us, sender.min_rtt_us);
        ack.srtt_us = sender.srtt_us >> 3;
        ack.acked_packets = sample.acked_sacked;
        ack.base_rtt_us = sender.base_rtt_us;
        ack.packet_ns = sender.packet_ns;
        ack.una_seq = sender.snd_una;
        ack.nxt_seq = sender.snd_nxt;
        ack.mss_bytes = sender.mss_bytes;
        ack.is_limited = sender.is_cwnd_limited ||
                         (in_slow_start(sender) && sender.snd_cwnd < 2 * sender.max_packets_out);
        return ack;
    }

    static void init(Sender &sender) {
        Algorithm::begin(&sender.private_state<State>(), sender.snd_cwnd);
    }

    // The window is kept by cong_control: what the kernel asks for here it does not use.
    static uint32_t ssthresh(Sender &sender) { return std::max(sender.snd_cwnd, 2U); }

    static void set_state(Sender &sender, CaState next) {
        auto &state = sender.private_state<State>();
        if (next == CaState::loss)
            Algorithm::on_timeout(&state);
        else if (next == CaState::recovery && next != sender.state)
            Algorithm::on_loss(&state, static_cast<uint64_t>(sender.now_ns / 1000),
                               sender.srtt_us >> 3);
    }

    static void put_in_force(Sender &sender, const dcgym_cc_decision &decision) {
        sender.snd_cwnd = decision.cwnd_packets;
        if (decision.pacing_bytes_per_s == 0)
            return update_pacing_rate(sender, decision.cwnd_packets,
                                      in_slow_start(sender) ? infinite_ssthresh : 0);
        sender.is_paced = true;
        sender.pacing_rate =
            std::min<uint64_t>(decision.pacing_bytes_per_s, sender.max_pacing_rate);
    }

    static void cong_control(Sender &sender, const RateSample &sample) {
        const dcgym_cc_ack ack = ack_of(sender, sample);
        Algorithm::on_ack(&sender.private_state<State>(), &ack);
        put_in_force(sender, decide(sender));
    }

    static uint32_t undo_cwnd(Sender &sender) {
        Algorithm::undo(&sender.private_state<State>());
        return std::max(sender.snd_cwnd, decide(sender).cwnd_packets);
    }

    // What it answers to a recorded sequence of events, from a window of 10 on.
    static void replay(dcgym_cc_traced *events, size_t count) {
        State state{};
        Algorithm::begin(&state, 10);
        for (dcgym_cc_traced &each : std::span(events, count)) {
            if (each.event == DCGYM_CC_ACK)
                Algorithm::on_ack(&state, &each.ack);
            else if (each.event == DCGYM_CC_LOSS)
                Algorithm::on_loss(&state, each.ack.now_us, each.ack.srtt_us);
            else if (each.event == DCGYM_CC_TIMEOUT)
                Algorithm::on_timeout(&state);
            else
                Algorithm::undo(&state);
            each.decision = Algorithm::decide(&state, each.ack.mss_bytes, each.ack.srtt_us);
        }
    }

    static constexpr CongestionOps ops() {
        return {
            .ssthresh = ssthresh,
            .init = init,
            .set_state = set_state,
            .cong_control = cong_control,
            .undo_cwnd = undo_cwnd,
            .replay = replay,
        };
    }
};

} // namespace dcgym::twin::packets
