// SPDX-License-Identifier: GPL-2.0-only
/* theta-PowerTCP (NSDI 2022), as include/theta_powertcp.h says. */
#include "theta_powertcp.h"

#define STATE struct dcgym_theta_powertcp
#define ALGORITHM(function) dcgym_theta_powertcp_##function

#include "window_control.bpf.h"
