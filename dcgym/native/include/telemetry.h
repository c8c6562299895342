/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared-memory telemetry: the single definition of the layout that the collector writes and every
 * reader maps (NumPy through dcgym.monitors.network.layout, whose sizes and offsets a test compares
 * with these).
 *
 * One region = one header, then n_ports port blocks, then n_hosts host blocks, all little-endian
 * 64-bit words. The header's sequence is a seqlock: odd while the collector writes, even when the
 * region is consistent. A reader copies, then compares the sequence before and after its copy; it
 * never blocks the writer. Counters are cumulative since the network was built.
 */
#ifndef DCGYM_TELEMETRY_H
#define DCGYM_TELEMETRY_H

#ifdef __cplusplus
#include <cstdint>
#else
#include <stdint.h>
#endif

#define DCGYM_TELEMETRY_MAGIC 0x4d595447434400ULL /* "\0DCGTYM" read as a little-endian word */
#define DCGYM_TELEMETRY_VERSION 3

#define DCGYM_LATE_NS 5000000 /* an interval that ends later than this is late */

struct dcgym_telemetry_header {
    uint64_t magic;
    uint64_t version;
    uint64_t sequence;     /* seqlock: odd = being written */
    uint64_t time_ns;      /* CLOCK_MONOTONIC at which the collection began */
    uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the collector's last sign of life */
    uint64_t source_ns;    /* heartbeat of the traffic generator, 0 when none is attached */
    uint64_t n_ports;
    uint64_t n_hosts;
    /* The control loop of this episode, as the process that acts saw it. */
    uint64_t steps;             /* snapshots that it took */
    uint64_t step_ns;           /* time between the last two */
    uint64_t interval_ns;       /* between the last two deadlines; 0: it waits for none */
    uint64_t action_latency_ns; /* of the last action: from the snapshot before it to its
                                   acknowledgement */
    uint64_t overrun_ns;        /* by how much the last deadline was missed */
    uint64_t worst_overrun_ns;
    uint64_t late_steps;
};

struct dcgym_telemetry_port {
    uint64_t tx_bytes; /* left the queue */
    uint64_t tx_packets;
    uint64_t rx_bytes; /* arrived at the port */
    uint64_t rx_packets;
    uint64_t drops;         /* refused by the full queue */
    uint64_t overlimits;    /* times the shaper made a packet wait */
    uint64_t marks;         /* packets given CE here */
    uint64_t backlog_bytes; /* queue now */
    uint64_t peak_bytes; /* longest queue an arriving packet met since the last reset of the peak */
};

struct dcgym_telemetry_host {
    uint64_t tx_bytes;    /* application bytes handed over by the sender side */
    uint64_t rx_bytes;    /* application bytes received */
    uint64_t retransmits; /* segments */
    uint64_t srtt_ns;     /* mean smoothed RTT of the active flows, 0 = none */
    uint64_t min_rtt_ns;  /* 0 = no sample */
    uint64_t rtt_sum_ns;  /* sum of all sampled smoothed RTTs ... */
    uint64_t rtt_samples; /* ... and their number: a mean over any interval by differences */
    uint64_t active_flows;
    uint64_t rate_bps;      /* limit acknowledged by the kernel */
    uint64_t backlog_bytes; /* waiting behind that limit now */
    uint64_t drops;         /* packets that the host's own full queue refused */
};

#endif
