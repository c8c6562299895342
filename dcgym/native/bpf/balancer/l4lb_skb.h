/* SPDX-License-Identifier: GPL-2.0-only */
/* Packets at tc's hooks: their bytes, and tunnels of IP in IP around them. */
#ifndef DCGYM_BPF_L4LB_SKB_H
#define DCGYM_BPF_L4LB_SKB_H

#include "l4lb_packet.h"
#include "l4lb_tunnel.h"

/* Headers of offloaded or spliced packets may lie outside the linear part. */
static __always_inline struct frame skb_frame(struct __sk_buff *skb) {
    const __u32 most = ETH_HLEN + 60 + MOST_TCP_BYTES;
    __u32 wanted = skb->len < most ? skb->len : most;

    if ((void *)(long)skb->data + wanted > (void *)(long)skb->data_end)
        bpf_skb_pull_data(skb, wanted);
    return (struct frame){.data = (void *)(long)skb->data,
                          .end = (void *)(long)skb->data_end,
                          .bytes = skb->len,
                          .tagged = skb->vlan_present,
                          .context = skb};
}

/* Puts a packet into a tunnel. 0, or the counter of a packet that does not fit the interface. */
static __always_inline int skb_encapsulate(struct __sk_buff *skb, const struct tunnel *tunnel) {
    const __u32 bytes = tunnel_bytes(tunnel);
    const __u64 flags =
        tunnel->version == 4 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
    struct frame frame;
    __u32 mtu = 0;

    if (bpf_check_mtu(skb, 0, &mtu, bytes, 0) ||
        bpf_skb_adjust_room(skb, bytes, BPF_ADJ_ROOM_MAC, flags))
        return DCGYM_LB_DROP_TOO_BIG;
    frame = skb_frame(skb);
    return write_outer(&frame, tunnel) ? 0 : DCGYM_LB_DROP_TOO_BIG;
}

/* Takes a packet out of the tunnel that it came by. */
static __always_inline void skb_decapsulate(struct __sk_buff *skb, const struct tunnel *tunnel) {
    bpf_skb_adjust_room(skb, -(__s32)tunnel_bytes(tunnel), BPF_ADJ_ROOM_MAC, 0);
}

#endif
