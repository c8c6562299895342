/* SPDX-License-Identifier: GPL-2.0-only */
/* IP in IP: IPv4 in IPv4 (RFC 2003), IPv6 in IPv6 (RFC 2473). */
#ifndef DCGYM_BPF_L4LB_TUNNEL_H
#define DCGYM_BPF_L4LB_TUNNEL_H

#include "common/ipip.h"
#include "l4lb_packet.h"

struct tunnel {
    struct dcgym_lb_endpoint from;
    struct dcgym_lb_endpoint to;
    __u32 version;
};

static __always_inline __u32 tunnel_bytes(const struct tunnel *tunnel) {
    return tunnel->version == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
}

static __always_inline bool has_ends(const struct tunnel *tunnel) {
    const struct dcgym_lb_endpoint *from = &tunnel->from, *to = &tunnel->to;

    if (tunnel->version == 4)
        return from->ipv4 && to->ipv4;
    return (from->ipv6[0] | from->ipv6[3]) && (to->ipv6[0] | to->ipv6[3]);
}

static __always_inline bool write_outer_ipv6(struct ipv6hdr *outer, void *end,
                                             const struct tunnel *tunnel) {
    const struct ipv6hdr *inner = outer + 1;
    __u32 bytes;

    if ((void *)(inner + 1) > end)
        return false;
    bytes = bpf_ntohs(inner->payload_len) + sizeof(*inner);
    if (bytes > 0xffff)
        return false;
    /* Version, class and flow label: the inner flow's, so that paths still tell flows apart. */
    *(__u32 *)outer = *(__u32 *)inner;
    outer->payload_len = bpf_htons(bytes);
    outer->nexthdr = IPPROTO_IPV6;
    outer->hop_limit = TUNNEL_HOPS;
    __builtin_memcpy(&outer->saddr, tunnel->from.ipv6, sizeof(outer->saddr));
    __builtin_memcpy(&outer->daddr, tunnel->to.ipv6, sizeof(outer->daddr));
    return true;
}

/* Fills the gap between the Ethernet header and the packet. */
static __always_inline bool write_outer(const struct frame *frame, const struct tunnel *tunnel) {
    void *outer = frame->data + ETH_HLEN;

    if (tunnel->version == 4)
        return write_outer_ipv4(outer, frame->end, tunnel->from.ipv4, tunnel->to.ipv4);
    return write_outer_ipv6(outer, frame->end, tunnel);
}

/* What a packet came by; version 0 if it is none that we send. */
static __always_inline struct tunnel read_outer(const struct frame *frame) {
    const struct ethhdr *eth = frame->data;
    const struct ipv6hdr *ip6 = (const void *)(eth + 1);
    const struct iphdr *ip = (const void *)(eth + 1);
    struct tunnel tunnel = {};

    if ((const void *)(ip + 1) > frame->end)
        return tunnel;
    if (eth->h_proto == bpf_htons(ETH_P_IP) && ip->ihl == 5 && ip->protocol == IPPROTO_IPIP) {
        tunnel.version = 4;
        tunnel.from.ipv4 = ip->saddr;
        tunnel.to.ipv4 = ip->daddr;
    } else if (eth->h_proto == bpf_htons(ETH_P_IPV6) && (const void *)(ip6 + 1) <= frame->end &&
               ip6->nexthdr == IPPROTO_IPV6) {
        tunnel.version = 6;
        __builtin_memcpy(tunnel.from.ipv6, &ip6->saddr, sizeof(tunnel.from.ipv6));
        __builtin_memcpy(tunnel.to.ipv6, &ip6->daddr, sizeof(tunnel.to.ipv6));
    }
    return tunnel;
}

static __always_inline bool ends_at(const struct tunnel *tunnel,
                                    const volatile struct dcgym_lb_endpoint *here) {
    const __u32 *to = tunnel->to.ipv6;

    if (tunnel->version == 4)
        return tunnel->to.ipv4 == here->ipv4;
    return tunnel->version == 6 && to[0] == here->ipv6[0] && to[1] == here->ipv6[1] &&
           to[2] == here->ipv6[2] && to[3] == here->ipv6[3];
}

#endif
