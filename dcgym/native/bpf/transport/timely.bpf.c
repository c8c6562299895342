// SPDX-License-Identifier: GPL-2.0-only
/* TIMELY (SIGCOMM 2015), as include/timely.h says. */
#include "timely.h"

#define STATE struct dcgym_timely
#define ALGORITHM(function) dcgym_timely_##function

#include "window_control.bpf.h"
