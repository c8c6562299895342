/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What l4lb.bpf.c and its loader share, beside the features and pools of balancing.h. */
#ifndef DCGYM_L4LB_H
#define DCGYM_L4LB_H

#include "balancer_devices.h"
#include "balancing.h"
#include "device_reports.h"
#include "server_messages.h"

#define DCGYM_LB_WAYS 4 /* entries of a bucket of the flow table */
#define DCGYM_LB_MAX_VIPS 64
#define DCGYM_LB_NO_PORT 0xffffffffU /* value of an address whose port is none of ours */
#define DCGYM_LB_ADDRESS_WORDS 4

/* What keeps a connection's packets on one server. */
enum dcgym_lb_consistency {
    DCGYM_LB_BY_TABLE,
    DCGYM_LB_BY_COOKIE, /* the server's number in the timestamps that its clients echo */
    DCGYM_LB_BY_HASH,   /* nothing: every packet alike, as the pool is at that time */
    DCGYM_LB_BY_RULE,   /* the cookie while a rule of Charon's is in force, else the table */
};

/* How a packet reaches its server. */
enum dcgym_lb_delivery {
    DCGYM_LB_L2,   /* the frame gets the server's MAC */
    DCGYM_LB_IPIP, /* RFC 2003, RFC 2473: in a packet of the balancer to the server */
};

/* What the programs know before they are loaded. */
struct dcgym_lb_constants {
    __u64 seed; /* of the flow hash: balancers with the same one agree where untracked flows go */
    __u32 n_vips;
    __u32 bucket_mask;  /* buckets of the flow table - 1, a power of two - 1 */
    __u32 witness_mask; /* the same of the record of placements */
    __u32 collects;     /* whether samples are taken; counters always are */
    __u32 tracks;       /* whether there is a flow table */
    __u32 consistency;  /* enum dcgym_lb_consistency */
    __u32 delivery;     /* enum dcgym_lb_delivery */
    __u32 devices;      /* whether servers have several devices; with BY_TABLE */
};

/* An end of tunnels in both families, in network order; 0: none. */
struct dcgym_lb_endpoint {
    __u32 ipv4;
    __u32 ipv6[DCGYM_LB_ADDRESS_WORDS];
};

/* How messages are handled. Probes are asked for once a request, and once more with the chance
 * one_more / 2^32. */
struct dcgym_lb_messages {
    __u32 address; /* where servers send them to, IPv4 in network order; 0: nowhere */
    __u32 balancers;
    __u32 probes;
    __u32 one_more;
    __u64 timeout_ns;
    __u64 c3_reset_ns; /* 0: never */
    struct dcgym_prequal_places places;
    struct dcgym_prequal_budget budgets[DCGYM_LB_SERVERS + 1]; /* by the size of the pool */
};

/* A probe that is to be sent, in the ring buffer `probes`. */
struct dcgym_lb_probe {
    __u64 serial;
    __u32 vip;
    __u32 server;
};

/* Run-time settings, in a memory-mapped section. A timeout counts from a flow's last packet. */
struct dcgym_lb_control {
    __u64 syn_timeout_ns;
    __u64 tcp_timeout_ns;
    __u64 udp_timeout_ns;
    __u64 closed_timeout_ns;
    __u64 half_closed_timeout_ns;
    __u64 snapshot_interval_ns;
    __u64 half_open_limit; /* flows in the phase SYN that count as ongoing, at most, of each VIP */
    __u64 mac;             /* of the balancer, in the low bytes as they lie in memory */
    __u64 further_macs;    /* so many after it are its own too: each address of VIPs may have one */
    __u64 source_mac;      /* of what it sends; taken as its own too */
    __u64 gateway_mac;     /* next hop of what comes back to it by tunnel; 0: its stack knows */
    struct dcgym_lb_endpoint tunnel_from;
    struct dcgym_lb_messages messages;
};

/* Addresses in network order, IPv4 in the first word; port in network order. */
struct dcgym_lb_vip_key {
    __u32 address[DCGYM_LB_ADDRESS_WORDS];
    __u16 port; /* 0 with protocol 0: the address itself */
    __u8 protocol;
    __u8 version; /* 4 or 6 */
};

/*
 * Server number i of VIP v lies at [v * DCGYM_LB_SERVERS + i]; where servers have devices, device d
 * of it at [(v * DCGYM_LB_SERVERS + i) * DCGYM_DEVICES + d].
 */
struct dcgym_lb_target {
    __u8 mac[6];
    __u16 generation; /* rises when another server takes the number; 0: nobody has it */
};

enum dcgym_lb_phase {
    DCGYM_LB_NULL,
    DCGYM_LB_SYN,  /* opened; its client has shown nothing more: counted up to a limit */
    DCGYM_LB_CONN, /* its client went on: counted as ongoing */
    /* What follows is only routed. Who forges an end must not cut the flow. */
    DCGYM_LB_HALF_CLOSED, /* a FIN came: the answer may take long, and its ACKs are to come */
    DCGYM_LB_GOES_ON,     /* data came after an end: repeated, or the end was forged */
    DCGYM_LB_CLOSED,      /* a RST came */
};

/* What the data plane keeps of a VIP; the snapshots are made of it. */
struct dcgym_lb_state {
    __u64 random;
    __u64 last_open_ns;
    __u64 syns;
    __u64 untracked;
    __u64 timeouts;
    __u32 turn;
    __u32 half_open; /* of the flows that count as ongoing */
    __u32 ongoing[DCGYM_LB_SERVERS];
    __u64 packets[DCGYM_LB_SERVERS];
    __u64 flows[DCGYM_LB_SERVERS];
    __u64 completed[DCGYM_LB_SERVERS];
    struct dcgym_score score[DCGYM_LB_SERVERS];
    struct dcgym_turn turns[DCGYM_LB_SERVERS];
    __u64 clock;
};

/* Per-CPU counters. */
enum dcgym_lb_counter {
    DCGYM_LB_NO_COUNTER,
#define DCGYM_ROW(symbol, ...) DCGYM_LB_##symbol,
#include "tables/balancer_counters.h"
    DCGYM_LB_COUNTERS,
};

/*
 * Timestamps with the server's number (Yao 2023, chapter 4): its top bits, above the server's
 * clock of milliseconds since `epoch_ms`. They come round after 2^24 ms, 4.6 hours: connections
 * that live then stall, since their clients take what follows for old (PAWS, RFC 7323).
 */
#define DCGYM_LB_CLOCK_BITS 24
#define DCGYM_LB_CLOCK_MASK ((1U << DCGYM_LB_CLOCK_BITS) - 1)
#define DCGYM_LB_CLOCK_SLACK_MS 1024 /* clocks of two CPUs may differ */
#define DCGYM_LB_NO_COOKIE 0xffffffffU

/*
 * A server's load in the SYN-ACK that returns through the balancer: an experimental TCP option
 * (RFC 6994) that the balancer blanks out. Numbers in network order.
 */
#define DCGYM_LB_REPORT_KIND 254
#define DCGYM_LB_REPORT_ID 0xdc47
#define DCGYM_LB_SPEED_SHIFT 4   /* of the speed, to fit 32 bits */
#define DCGYM_LB_SERVICE_SHIFT 4 /* of the time of service: up to 68 s */

struct dcgym_lb_report {
    __u8 kind;
    __u8 bytes;
    __u16 id;
    __u8 next_hop[6]; /* where the SYN-ACK was going; 0: through a tunnel, to be routed */
    __u16 flows;
    __u32 speed;   /* score per tick, shifted */
    __u32 service; /* time between two ends of a busy server, shifted; 0: unknown */
};

/* What l4lb_server.bpf.c knows before it is loaded. */
struct dcgym_lb_server_constants {
    __u32 server;
    __u32 epoch_ms;
    __u32 cookies;                      /* whether its timestamps bear its number */
    __u32 reports;                      /* whether its SYN-ACKs return through the balancer */
    struct dcgym_lb_endpoint tunnel_to; /* the server's own; 0: packets stay in tunnels */
};

/* A row of the map of loads, by server number: struct dcgym_http_server of http.h. */
struct dcgym_lb_load {
    __u32 busy; /* flows at the server, whatever it does with them */
    __u32 others[2];
    __u16 workers_busy;
    __u16 workers;
    __u64 counters[5];
    __u64 mean_service_ns; /* 0: unknown */
    __u64 busy_ns;
};

/* EtherType of the loader's probes: local experiments (IEEE 802, clause 9.2.3). */
#define DCGYM_LB_PROBE_TYPE 0x88b5

#endif
