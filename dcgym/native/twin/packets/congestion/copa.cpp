// SPDX-License-Identifier: Apache-2.0
// Copa (NSDI 2018), as include/copa.h says.
#include "copa.h"

#include "window_control.hpp"

namespace dcgym::twin::packets {
namespace {

struct Copa {
    using State = dcgym_copa;
    static constexpr auto begin = dcgym_copa_begin;
    static constexpr auto on_ack = dcgym_copa_on_ack;
    static constexpr auto on_loss = dcgym_copa_on_loss;
    static constexpr auto on_timeout = dcgym_copa_on_timeout;
    static constexpr auto undo = dcgym_copa_undo;
    static constexpr auto decide = dcgym_copa_decide;
};

} // namespace

constinit const CongestionOps copa_ops = WindowControl<Copa>::ops("copa");

} // namespace dcgym::twin::packets
