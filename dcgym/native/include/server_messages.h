/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* What balancers and servers send each other in UDP datagrams, for the rules that need messages. */
#ifndef DCGYM_SERVER_MESSAGES_H
#define DCGYM_SERVER_MESSAGES_H

#include <linux/types.h>

#define DCGYM_MESSAGE_MAGIC 0xdc4d
#define DCGYM_MESSAGE_VERSION 1
#define DCGYM_MESSAGE_PORT 47 /* of both ends; below the range that clients draw theirs from */

enum dcgym_message_kind {
    DCGYM_MESSAGE_PROBE = 1, /* balancer to server */
    DCGYM_MESSAGE_ANSWER,    /* and back, with the serial number of the probe */
    DCGYM_MESSAGE_IDLE,      /* server to balancer, unasked: it has nothing to do */
    DCGYM_MESSAGE_STATUS,    /* agent to balancer, unasked: its device is busy, or is not */
};

/* Numbers in network order. */
struct dcgym_message {
    __u16 magic;
    __u8 version;
    __u8 kind;
    __u16 server;
    __u16 vip;
    __u64 serial;     /* of a status: rises, by its low 32 bits; 0: not numbered */
    __u64 latency_ns; /* of the server's requests at this load; 0: it knows none of late */
    __u32 in_flight;  /* requests at the server */
    __u8 device;      /* of the server, with a status */
    __u8 is_busy;     /* 0 or 1, with a status */
    __u16 reserved;
};

#endif
