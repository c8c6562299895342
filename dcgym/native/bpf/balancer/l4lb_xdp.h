/* SPDX-License-Identifier: GPL-2.0-only */
/* Packets at XDP's hook: their bytes, and tunnels of IP in IP around them. */
#ifndef DCGYM_BPF_L4LB_XDP_H
#define DCGYM_BPF_L4LB_XDP_H

#include "l4lb_packet.h"
#include "l4lb_tunnel.h"

static __always_inline struct frame xdp_frame(struct xdp_md *xdp) {
    void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;

    return (struct frame){
        .data = data, .end = end, .bytes = end - data, .xdp = true, .context = xdp};
}

/* Moves the packet's begin and its Ethernet header; positive: towards the payload. */
static __always_inline bool move_head(struct xdp_md *xdp, int bytes) {
    struct frame frame = xdp_frame(xdp);
    struct ethhdr eth;

    if (frame.data + sizeof(eth) > frame.end)
        return false;
    __builtin_memcpy(&eth, frame.data, sizeof(eth));
    if (bpf_xdp_adjust_head(xdp, bytes))
        return false;
    frame = xdp_frame(xdp);
    if (frame.data + sizeof(eth) > frame.end)
        return false;
    __builtin_memcpy(frame.data, &eth, sizeof(eth));
    return true;
}

/* Puts a packet into a tunnel. 0, or the counter of a packet that does not fit the interface. */
static __always_inline int xdp_encapsulate(struct xdp_md *xdp, const struct tunnel *tunnel) {
    const int bytes = tunnel_bytes(tunnel);
    struct frame frame;
    __u32 mtu = 0;

    if (bpf_check_mtu(xdp, 0, &mtu, bytes, 0) || !move_head(xdp, -bytes))
        return DCGYM_LB_DROP_TOO_BIG;
    frame = xdp_frame(xdp);
    return write_outer(&frame, tunnel) ? 0 : DCGYM_LB_DROP_TOO_BIG;
}

/* RFC 1624 for a checksum in the packet, which senders must have filled in. */
static __always_inline void xdp_fix_checksum(struct xdp_md *xdp, __u32 at, __u32 difference) {
    struct frame frame = xdp_frame(xdp);
    __u16 *check = frame.data + (at & 0xff);
    __u32 sum;

    if ((void *)(check + 1) > frame.end)
        return;
    sum = (__u16) ~*check + (difference & 0xffff) + (difference >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    *check = ~(__u16)((sum & 0xffff) + (sum >> 16));
}

/* A frame by which the loader finds out whether what is sent arrives: it goes back as it came. */
static __always_inline bool is_probe(const struct frame *frame) {
    const struct ethhdr *eth = frame->data;

    return (const void *)(eth + 1) <= frame->end && eth->h_proto == bpf_htons(DCGYM_LB_PROBE_TYPE);
}

static __always_inline int return_probe(const struct frame *frame) {
    struct ethhdr *eth = frame->data;
    struct ethhdr back;

    if ((void *)(eth + 1) > frame->end)
        return XDP_DROP;
    __builtin_memcpy(back.h_dest, eth->h_source, sizeof(back.h_dest));
    __builtin_memcpy(back.h_source, eth->h_dest, sizeof(back.h_source));
    __builtin_memcpy(eth, &back, sizeof(back.h_dest) + sizeof(back.h_source));
    return XDP_TX;
}

#endif
