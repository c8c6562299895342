/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What agents tell a balancer of a device, in one of two packets: P4Hauler's header, which is here,
 * or P4Mite's status, a message of server_messages.h. The sources name the fields; widths, byte
 * order, EtherType and sequence numbers are ours, as they state none.
 *
 * Sources: Tajbakhsh, "Programmable and intelligent accelerator-aware load balancers in data
 * centers" (2023), sections 4.3 (status) and 5.3 (header).
 */
#ifndef DCGYM_DEVICE_REPORTS_H
#define DCGYM_DEVICE_REPORTS_H

#include <linux/types.h>

/* EtherType 2 for local experiments (IEEE 802, clause 9.2.3). */
#define DCGYM_DEVICE_REPORT_TYPE 0x88b6
#define DCGYM_DEVICE_REPORT_VERSION 1

/* A report with a number that is not above the last one's is stale, unless that came so long ago:
 * its agent has begun anew, and nothing of before is under way any more. */
#define DCGYM_DEVICE_REORDERING_NS 1000000000ULL

/* Follows the Ethernet header; numbers in network order, shares in whole per cent, 0 to 100. */
struct dcgym_device_report {
    __u8 version;
    __u8 vip;
    __u8 server; /* these two are DID */
    __u8 device;
    __u8 compute;   /* CMP: use of the workers */
    __u8 memory;    /* MEM */
    __u16 network;  /* NET: requests that are served or wait at the device */
    __u32 sequence; /* rises with each report of a device; 0: not numbered */
};

#endif
