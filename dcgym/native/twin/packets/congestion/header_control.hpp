// SPDX-License-Identifier: Apache-2.0
// Defines SYMBOL_ops for DCGYM_CONTROL, an algorithm of include/window_control.h. setup.py makes a
// source of it for each row of tables/congestion_controls.h that is one header.
#pragma once

#include "congestion/window_control.hpp"

#include DCGYM_CONTROL_HEADER

#define OWN DCGYM_CONTROL_NAME
#define OPS_(symbol) symbol##_ops
#define OPS(symbol) OPS_(symbol)

namespace dcgym::twin::packets {

struct OWN(algorithm) {
    using State = DCGYM_CONTROL_STATE;
    static constexpr auto begin = OWN(begin);
    static constexpr auto on_ack = OWN(on_ack);
    static constexpr auto on_loss = OWN(on_loss);
    static constexpr auto on_timeout = OWN(on_timeout);
    static constexpr auto undo = OWN(undo);
    static constexpr auto decide = OWN(decide);
    static uint32_t in_slow_start(const State *state) { return state->in_slow_start; }
};

constinit const CongestionOps OPS(DCGYM_CONTROL) = WindowControl<OWN(algorithm)>::ops();

} // namespace dcgym::twin::packets
