/* SPDX-License-Identifier: GPL-2.0-only */
/* Labels of flows: the senders' congestion control writes them, the switches hash with them. */
#ifndef DCGYM_BPF_LABELS_H
#define DCGYM_BPF_LABELS_H

#include "plb.h"

/* The fabric's loader sets max_entries; a congestion control gets the fabric's map. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1);
    __type(key, struct dcgym_labelled_flow);
    __type(value, struct dcgym_label);
} labels SEC(".maps");

#endif
