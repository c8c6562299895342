/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared-memory layouts between the traffic generator, its owner and its readers.
 *
 * The block that readers map is: one header, n_hosts host entries, n_probes probe entries, then a
 * ring of flow records. Every field is 8-byte aligned and little endian. The header, the host and
 * the probe entries are written under a sequence lock: the sequence is odd while the writer is at
 * work, and a reader retries when it read an odd value or when the value changed during its copy.
 * Record number i (from 0) lies at ring slot i % record_capacity; its own sequence is i + 1 once it
 * is complete and 0 while it is being written, so that a reader knows what it missed.
 *
 * The plan that the owner hands over is a memory file of flow entries.
 */
#ifndef DCGYM_GENERATOR_H
#define DCGYM_GENERATOR_H

#include <stdint.h>

#define DCGYM_GENERATOR_MAGIC UINT64_C(0x4447454e45523031)
#define DCGYM_GENERATOR_VERSION 4

/* In a flow: no limit. */
#define DCGYM_GENERATOR_UNLIMITED (-1)

enum dcgym_generator_transport {
#define DCGYM_ROW(symbol, name) DCGYM_GENERATOR_##symbol,
#include "tables/transports.h"
};

enum dcgym_generator_outcome {
#define DCGYM_ROW(symbol, name, number, ...) DCGYM_GENERATOR_##symbol = number,
#include "tables/generator_outcomes.h"
};

struct dcgym_generator_header {
    uint64_t magic;
    uint64_t version;
    uint64_t n_hosts;
    uint64_t n_probes;
    uint64_t record_capacity;
    uint64_t sequence;     /* odd while being written */
    uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the last timer tick */
    uint64_t sample_ns;    /* CLOCK_MONOTONIC at which the host entries were taken */
    uint64_t start_ns;     /* origin of the running plan, 0 when stopped */
    uint64_t flows_planned;
    uint64_t flows_active;
    uint64_t flows_finished; /* runs (flow repetitions) that ended by themselves */
    uint64_t finished;       /* 1 when a non-empty plan has no repetition left */
    uint64_t starts;         /* runs of the running plan that were started ... */
    uint64_t late_starts;    /* ... and those of them over 2 ms after their planned time */
    uint64_t udp_period_ns;  /* time between two bursts of one UDP flow, rises with their number */
    uint64_t record_count;   /* records ever written, never reset */
    uint64_t record_base;    /* record_count when the running plan was started */
    uint64_t sample_due_ns;  /* CLOCK_MONOTONIC at which a reader wants a sample beside those that
                                are taken anyway; written by that reader, 5 ms before or earlier */
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

/* A small request that one host sends another again and again; cumulative except "now". */
struct dcgym_generator_probe {
    uint64_t src;
    uint64_t dst;
    uint64_t sent;
    uint64_t answered;
    uint64_t rtt_ns;     /* now: of the last answered request, 0 before the first */
    uint64_t rtt_sum_ns; /* of the answered ones */
    uint64_t waiting_ns; /* now: age of the oldest unanswered request, 0 without one */
};

struct dcgym_generator_record {
    uint64_t sequence; /* number of the record, from 1; 0 while it is being written */
    uint64_t id;
    uint64_t repetition;
    uint64_t src;
    uint64_t dst;
    uint64_t transport;
    uint64_t outcome;
    uint64_t planned_start_ns; /* CLOCK_MONOTONIC, as are the next two */
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t bytes;   /* application bytes that the receiving application read */
    uint64_t srtt_ns; /* smoothed RTT when the flow ended, 0 if never measured */
    uint64_t min_rtt_ns;
    uint64_t retransmits;
    uint64_t out_of_order;         /* segments that came before an earlier one, losses included */
    uint64_t reorderings;          /* times that the sender saw that one was late and not lost */
    uint64_t spurious_retransmits; /* segments that the receiver reported to have come twice */
};

/* One flow of a plan; its number in the array is the id of its records. */
struct dcgym_generator_flow {
    uint32_t src;
    uint32_t dst;
    uint32_t transport;
    uint32_t port;       /* of the receiver */
    int64_t start_ns;    /* from the origin of the plan, or from the end of the flow "after" */
    int64_t size_bytes;  /* application bytes, or unlimited */
    int64_t duration_ns; /* from the planned start, or unlimited */
    int64_t rate_bps;    /* application bit/s, or unlimited */
    int64_t repetitions; /* 0 means for ever */
    int64_t gap_ns;      /* from the end of a run to the planned start of the next */
    int64_t after;       /* the earlier flow whose last run this one waits for, or -1 */
    int64_t group;       /* a label of the plan's maker, without meaning here */
};

#endif
