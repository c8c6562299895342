// SPDX-License-Identifier: GPL-2.0-only
/* Copa (NSDI 2018), as include/copa.h says. */
#include "copa.h"

#define STATE struct dcgym_copa
#define ALGORITHM(function) dcgym_copa_##function

#include "window_control.bpf.h"
