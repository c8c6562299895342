// SPDX-License-Identifier: GPL-2.0-only
/* Swift (SIGCOMM 2020), as include/swift.h says. */
#include "swift.h"

#define STATE struct dcgym_swift
#define ALGORITHM(function) dcgym_swift_##function

#include "window_control.bpf.h"
