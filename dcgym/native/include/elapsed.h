/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#ifndef DCGYM_ELAPSED_H
#define DCGYM_ELAPSED_H

#include "splitmix.h"

/*
 * Time since an event. A processor reads the clock before it looks at shared memory, where another
 * one may have noted a later time by then: no time has passed.
 */
DCGYM_INLINE __u64 dcgym_elapsed_ns(__u64 now_ns, __u64 since_ns) {
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

#endif
