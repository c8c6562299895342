/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared-memory layouts of the HTTP servers and clients in the traffic generator.
 *
 * Servers: an array of rows, one a server. The memory may be that of a BPF array map
 * (BPF_F_MMAPABLE, a row a value), so that a program of the kernel reads it too. "busy" by
 * itself is always whole; a row is whole if its sequence was even and the same before and after.
 *
 * Requests: one memory file with, in this order, a header, n_stages stages, n_requests requests,
 * n_requests results and n_requests 64-bit numbers: the requests in the order in which they ended.
 * The first three are the owner's, the others and the counters of the header the generator's. The
 * k-th number and the result that it names are whole once "ended" is above k.
 */
#ifndef DCGYM_HTTP_H
#define DCGYM_HTTP_H

#include <stdint.h>

#define DCGYM_HTTP_MAGIC UINT64_C(0x4447485454503031)
#define DCGYM_HTTP_VERSION 2

enum dcgym_http_outcome {
#define DCGYM_ROW(symbol, ...) DCGYM_HTTP_##symbol,
#include "tables/http_outcomes.h"
};

struct dcgym_http_server {
    uint32_t busy;            /* flows at the server: before their request, waiting, in service */
    uint32_t waiting;         /* of these, for the first resource, the processors */
    uint32_t later;           /* of these, at the other resources */
    uint16_t workers_busy;    /* processors in use by flows */
    uint16_t workers;         /* processors there are */
    uint64_t sequence;        /* odd while being written */
    uint64_t accepted;        /* connections, cumulative like the next two */
    uint64_t completed;       /* requests answered with status 200 */
    uint64_t rejected;        /* connections or requests reset by a full backlog, or answered 503 */
    uint64_t heartbeat_ns;    /* CLOCK_MONOTONIC of the last write; 0: the server is down */
    uint64_t mean_service_ns; /* from the begin of service to its end, exponentially weighted */
    uint64_t busy_ns; /* processors in use by flows, summed over the time to the last write */
};

struct dcgym_http_header {
    uint64_t magic;
    uint64_t version;
    uint64_t n_requests;
    uint64_t n_stages;
    uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the last timer tick */
    uint64_t start_ns;     /* origin of the running plan, 0 when stopped */
    uint64_t started;
    uint64_t late_starts; /* of these, over 2 ms after their planned time */
    uint64_t active;
    uint64_t ended;
    uint64_t message_answers;  /* that servers sent to probes since the start, second ones too */
    uint64_t idle_messages;    /* that servers sent */
    uint64_t messages_lost;    /* probes, answers and idle messages, by the plan's loss */
    uint64_t unknown_messages; /* datagrams to servers that are no probes */
};

struct dcgym_http_stage {
    int64_t duration_ns; /* on a resource of speed 1 that is not shared */
    uint32_t resource;   /* its number among the names that the plan's owner tells */
    uint32_t reserved;
};

struct dcgym_http_request {
    int64_t start_ns; /* from the origin of the plan */
    uint32_t client;  /* the host */
    uint32_t target;
    uint32_t application;
    uint32_t n_stages;
    uint64_t first_stage;
    int64_t bytes; /* of the response's body */
};

struct dcgym_http_result {
    int64_t start_ns; /* CLOCK_MONOTONIC, as are the next three; 0: not reached */
    int64_t established_ns;
    int64_t first_byte_ns;
    int64_t end_ns;
    uint64_t bytes; /* of the body, that have come */
    int32_t server; /* that accepted the connection; -1: unknown */
    uint32_t outcome;
    uint32_t status; /* of the response, 0 without one */
    uint32_t reserved;
};

#endif
