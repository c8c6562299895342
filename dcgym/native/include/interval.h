/* SPDX-License-Identifier: Apache-2.0 */
/* Between two native modules: a simulation runs an interval of all copies of a network, and the
 * measurements take each copy where it has ended, while its state is in the cache. Python hands the
 * runner over in a capsule, and holds no lock meanwhile. */
#ifndef DCGYM_INTERVAL_H
#define DCGYM_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Name of the capsule. */
#define DCGYM_INTERVAL_RUNNER "dcgym_interval_runner"

/* Takes a copy whose row is written; copies may come on several threads, in any order. */
struct dcgym_interval_sink {
    void *self;
    void (*take)(void *self, size_t copy);
};

struct dcgym_interval_runner {
    void *self;
    size_t copies, words;
    /* Runs each copy until its time; a time that has passed changes nothing. Writes the time of
     * each, a row of words (dcgym.monitors.StateWords), and whether its plan has ended. */
    void (*run)(void *self, const int64_t *until_ns, int64_t *now_ns, uint64_t *words,
                bool *finished, const struct dcgym_interval_sink *sink);
};

#endif
