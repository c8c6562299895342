/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The tables of a switch that is a hardware mux (Duet, section 3): an exact match on a VIP, a block
 * of equal-cost entries, tunnels to the VIP's servers. Plain C; for fabric.bpf.c and its loader.
 */
#ifndef DCGYM_HMUX_H
#define DCGYM_HMUX_H

#include <linux/types.h>

/* What the program knows before it is loaded. */
struct dcgym_hmux_constants {
    __u64 seed;           /* of `dcgym_flow_digest`: the software muxes' */
    __u32 first_vip;      /* number of the first VIP: its address is 10.0.0.0 plus that */
    __u32 n_vips;         /* numbers from there on: the prefix that software muxes announce */
    __u32 software_mux;   /* number that this prefix is routed to; 0: none, its packets are lost */
    __u32 ecmp_entries;   /* of each switch */
    __u32 tunnel_entries; /* of each switch */
    __u32 reserved;
};

/*
 * A switch's entry for the /32 of a VIP at [switch_id * n_vips + VIP], read and written whole. No
 * entries: packets go on to `number`, the switch that announces the VIP; 0 is no /32 here, so that
 * the prefix holds. Else they are of this switch, at [switch_id * ecmp_entries + first_entry]; with
 * a `number` below the first VIP's they serve packets of the switch's own hosts alone, and others
 * go on to it (a local mapping; Rubik, USENIX ATC 2015).
 */
struct dcgym_vip_entry {
    __u32 number;
    __u16 first_entry;
    __u16 n_entries;
};

/* Of an index in a table of the switch, plus 1; 0: an entry that is not in use. */
typedef __u32 dcgym_hmux_entry;

#endif
