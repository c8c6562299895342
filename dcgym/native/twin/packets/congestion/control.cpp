// SPDX-License-Identifier: Apache-2.0
#include "control.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "window_control.hpp"

namespace dcgym::twin::packets {
namespace {

// An algorithm that another package compiled (foreign_control.c).
struct Foreign {
    struct State {
        const dcgym_control_functions *functions;
        alignas(8) std::byte bytes[DCGYM_CC_STATE_BYTES];
    };
    static void begin(State *state, uint32_t cwnd) { state->functions->begin(state->bytes, cwnd); }
    static void on_ack(State *state, const dcgym_cc_ack *ack) {
        state->functions->on_ack(state->bytes, ack);
    }
    static void on_loss(State *state, uint64_t now_us, uint32_t srtt_us) {
        state->functions->on_loss(state->bytes, now_us, srtt_us);
    }
    static void on_timeout(State *state) { state->functions->on_timeout(state->bytes); }
    static void undo(State *state) { state->functions->undo(state->bytes); }
    static dcgym_cc_decision decide(const State *state, uint32_t mss_bytes, uint32_t srtt_us) {
        return state->functions->decide(state->bytes, mss_bytes, srtt_us);
    }
    static uint32_t in_slow_start(const State *state) {
        return state->functions->in_slow_start(state->bytes);
    }
};

void foreign_init(Sender &sender) {
    sender.private_state<Foreign::State>().functions = sender.ca->functions;
    WindowControl<Foreign>::init(sender);
}

constexpr bool MARKS = true, NO_MARKS = false;

struct Controls {
    std::mutex lock; // episodes begin in any thread
    std::map<std::string, Control> by_name = {
#define DCGYM_ROW(symbol, name, kernel_name, in_linux, program, marking, description)              \
    {name, {&symbol##_ops, marking}},
#include "tables/congestion_controls.h"
    };
    std::deque<CongestionOps> added;
};

Controls &controls() {
    static Controls known;
    return known;
}

} // namespace

Control find_congestion_control(const std::string &name) {
    Controls &known = controls();
    const std::lock_guard held(known.lock);
    const auto found = known.by_name.find(name);
    return found == known.by_name.end() ? Control{} : found->second;
}

void add_congestion_control(const std::string &name, const dcgym_control_functions &functions) {
    Controls &known = controls();
    const std::lock_guard held(known.lock);
    Control &control = known.by_name[name];
    if (control.ops != nullptr && control.ops->functions == &functions)
        return;
    CongestionOps &ops = known.added.emplace_back(WindowControl<Foreign>::ops());
    ops.init = foreign_init;
    ops.functions = &functions;
    ops.replay = nullptr; // without a sender, nobody gives a state its functions
    control = {&ops, false};
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
