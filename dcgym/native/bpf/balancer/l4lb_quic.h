/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The server's number in a connection ID of QUIC (RFC 9000, section 17; QUIC-LB, plaintext). Short
 * headers and handshake packets of version 1 bear an ID that the server chose. Initial and 0-RTT
 * packets may bear one that the client drew, and other versions number their types otherwise: all
 * these follow the table, which suffices, as no address changes before the handshake is confirmed.
 */
#ifndef DCGYM_BPF_L4LB_QUIC_H
#define DCGYM_BPF_L4LB_QUIC_H

#include "l4lb_packet.h"

#define QUIC_LONG 0x80
#define QUIC_TYPE 0x30
#define QUIC_HANDSHAKE 0x20
#define QUIC_VERSION_1 0x00000001
#define QUIC_CONFIG_BITS 0xe0 /* of an ID's first byte: which balancer's; ours is 0 */

struct quic_short {
    __u8 first;
    __u8 id[DCGYM_LB_QUIC_LEAST_ID_BYTES];
} __attribute__((packed));

struct quic_long {
    __u8 first;
    __u32 version;
    __u8 id_bytes;
    __u8 id[DCGYM_LB_QUIC_LEAST_ID_BYTES];
} __attribute__((packed));

/* Any packet of QUIC is longer than that (RFC 9000, section 10.3). */
union quic {
    struct quic_short of_short;
    struct quic_long of_long;
};

static __always_inline __u32 number_in_id(const __u8 *id) {
    return id[0] & QUIC_CONFIG_BITS ? DCGYM_LB_NO_COOKIE : id[1];
}

/* DCGYM_LB_NO_COOKIE if the packet names no server. */
static __always_inline __u32 read_quic_id(const struct frame *frame, const void *udp) {
    const __u32 at = udp + sizeof(struct udphdr) - frame->data;
    const struct udphdr *header = udp;
    union quic quic;
    long err;

    if ((const void *)(header + 1) > frame->end ||
        bpf_ntohs(header->len) <= sizeof(*header) + sizeof(__u8) + constants.quic_id_bytes)
        return DCGYM_LB_NO_COOKIE;
    err = frame->xdp ? bpf_xdp_load_bytes(frame->context, at, &quic, sizeof(quic))
                     : bpf_skb_load_bytes(frame->context, at, &quic, sizeof(quic));
    if (err)
        return DCGYM_LB_NO_COOKIE;
    if (!(quic.of_short.first & QUIC_LONG))
        return number_in_id(quic.of_short.id);
    if ((quic.of_long.first & QUIC_TYPE) != QUIC_HANDSHAKE ||
        quic.of_long.version != bpf_htonl(QUIC_VERSION_1) ||
        quic.of_long.id_bytes != constants.quic_id_bytes)
        return DCGYM_LB_NO_COOKIE;
    return number_in_id(quic.of_long.id);
}

#endif
