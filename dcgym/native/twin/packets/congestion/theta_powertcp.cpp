// SPDX-License-Identifier: Apache-2.0
// theta-PowerTCP (NSDI 2022), as include/theta_powertcp.h says.
#include "theta_powertcp.h"

#include "window_control.hpp"

namespace dcgym::twin::packets {
namespace {

struct ThetaPowerTcp {
    using State = dcgym_theta_powertcp;
    static constexpr auto begin = dcgym_theta_powertcp_begin;
    static constexpr auto on_ack = dcgym_theta_powertcp_on_ack;
    static constexpr auto on_loss = dcgym_theta_powertcp_on_loss;
    static constexpr auto on_timeout = dcgym_theta_powertcp_on_timeout;
    static constexpr auto undo = dcgym_theta_powertcp_undo;
    static constexpr auto decide = dcgym_theta_powertcp_decide;
};

} // namespace

constinit const CongestionOps theta_powertcp_ops =
    WindowControl<ThetaPowerTcp>::ops("theta-powertcp");

} // namespace dcgym::twin::packets
