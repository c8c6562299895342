// SPDX-License-Identifier: Apache-2.0
// Swift (SIGCOMM 2020), as include/swift.h says.
#include "swift.h"

#include "window_control.hpp"

namespace dcgym::twin::packets {
namespace {

struct Swift {
    using State = dcgym_swift;
    static constexpr auto begin = dcgym_swift_begin;
    static constexpr auto on_ack = dcgym_swift_on_ack;
    static constexpr auto on_loss = dcgym_swift_on_loss;
    static constexpr auto on_timeout = dcgym_swift_on_timeout;
    static constexpr auto undo = dcgym_swift_undo;
    static constexpr auto decide = dcgym_swift_decide;
};

} // namespace

constinit const CongestionOps swift_ops = WindowControl<Swift>::ops("swift");

} // namespace dcgym::twin::packets
