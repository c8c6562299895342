/* SPDX-License-Identifier: MIT */
/*
 * Shared-memory layout between the traffic generator and its readers.
 *
 * The block is: one header, n_hosts host entries, then a ring of flow records. Every field is
 * 8-byte aligned and little endian. The header and the host entries are written under a sequence
 * lock: the sequence is odd while the writer is at work, and a reader retries when it read an odd
 * value or when the value changed during its copy. Record number i lies at ring slot
 * i % record_capacity and is complete once record_count > i.
 */
#ifndef DCGYM_GENERATOR_H
#define DCGYM_GENERATOR_H

#include <stdint.h>

#define DCGYM_GENERATOR_MAGIC UINT64_C(0x4447454e45523031)
#define DCGYM_GENERATOR_VERSION 1

enum dcgym_generator_transport {
    DCGYM_GENERATOR_TCP = 0,
    DCGYM_GENERATOR_UDP = 1,
};

enum dcgym_generator_outcome {
    DCGYM_GENERATOR_FINISHED = 1, /* all bytes delivered, or the planned duration is over */
    DCGYM_GENERATOR_CUT = 2,      /* still running when the generator was stopped */
    DCGYM_GENERATOR_FAILED = 3,   /* the socket reported an error */
};

struct dcgym_generator_header {
    uint64_t magic;
    uint64_t version;
    uint64_t n_hosts;
    uint64_t record_capacity;
    uint64_t sequence;     /* odd while being written */
    uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the last timer tick */
    uint64_t sample_ns;    /* CLOCK_MONOTONIC at which the host entries were taken */
    uint64_t start_ns;     /* origin of the running plan, 0 when stopped */
    uint64_t flows_planned;
    uint64_t flows_active;
    uint64_t flows_finished; /* runs (flow repetitions) that ended by themselves */
    uint64_t finished;       /* 1 when a non-empty plan has no repetition left */
    uint64_t record_count;   /* records ever written, never reset */
    uint64_t record_base;    /* record_count when the running plan was started */
};

/* Cumulative over the life of the generator, except where it says "now". */
struct dcgym_generator_host {
    uint64_t tx_bytes; /* application bytes: (selectively) acknowledged (TCP), sent (UDP) */
    uint64_t rx_bytes; /* application bytes received, out of order too */
    uint64_t retransmits;
    uint64_t srtt_ns;    /* now: mean over the host's sending TCP flows, 0 without any */
    uint64_t min_rtt_ns; /* now: least over the host's sending TCP flows, 0 without any */
    uint64_t rtt_sum_ns;
    uint64_t rtt_samples;
    uint64_t active_flows; /* now: flows this host is sending */
};

struct dcgym_generator_record {
    uint64_t id;
    uint64_t repetition;
    uint64_t src;
    uint64_t dst;
    uint64_t transport;
    uint64_t outcome;
    uint64_t planned_start_ns; /* CLOCK_MONOTONIC, as are the next two */
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t bytes;   /* application bytes delivered to the receiver, in order */
    uint64_t srtt_ns; /* smoothed RTT when the flow ended, 0 if never measured */
    uint64_t min_rtt_ns;
    uint64_t retransmits;
};

#endif
