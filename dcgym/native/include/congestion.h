/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What every BPF congestion control shares with its loader. */
#ifndef DCGYM_CONGESTION_H
#define DCGYM_CONGESTION_H

#include <linux/types.h>

/* The loader writes the algorithm's name over these bytes, so that emulators can coexist. */
#define DCGYM_CC_NAME_BYTES 16
#define DCGYM_CC_PLACEHOLDER "dcgym_cc_name"

#endif
