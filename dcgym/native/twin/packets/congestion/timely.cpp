// SPDX-License-Identifier: Apache-2.0
// TIMELY (SIGCOMM 2015), as include/timely.h says.
#include "timely.h"

#include "window_control.hpp"

namespace dcgym::twin::packets {
namespace {

struct Timely {
    using State = dcgym_timely;
    static constexpr auto begin = dcgym_timely_begin;
    static constexpr auto on_ack = dcgym_timely_on_ack;
    static constexpr auto on_loss = dcgym_timely_on_loss;
    static constexpr auto on_timeout = dcgym_timely_on_timeout;
    static constexpr auto undo = dcgym_timely_undo;
    static constexpr auto decide = dcgym_timely_decide;
};

} // namespace

constinit const CongestionOps timely_ops = WindowControl<Timely>::ops("timely");

} // namespace dcgym::twin::packets
