/* SPDX-License-Identifier: GPL-2.0-only */
/* The way to a host: which interface its packets leave by, and how large they may be there. */
#ifndef DCGYM_BPF_FABRIC_ROUTE_H
#define DCGYM_BPF_FABRIC_ROUTE_H

#include "drill.h"
#include "fabric_maps.h"
#include "fabric_packet.h"
#include "flow.h"

#define TCP_OFFSET_BYTE 12
#define UDP_HEADER_BYTES 8

/* A decision: an egress ifindex and the receiver's number, or the reason why there is none. */
struct decision {
    __u32 ifindex;
    __u32 reason;
    __u32 host;
};

static __always_inline struct decision refuse(__u32 reason) {
    return (struct decision){.reason = reason};
}

static __always_inline bool keeps_flows(void) {
    return constants.flow_entries && constants.path_rule <= DCGYM_PATH_LETFLOW;
}

static __always_inline struct decision next_hop(__u32 switch_id, __u32 host, struct flow_key *key) {
    __u32 index = switch_id * constants.n_hosts + host - 1, id;
    __u32 *route = bpf_map_lookup_elem(&routes, &index);
    struct dcgym_group *group;
    struct draw draw;
    bool is_drawn;
    int port;

    if (!route || !*route)
        return refuse(DCGYM_DROP_NO_ROUTE);
    id = *route - 1;
    group = bpf_map_lookup_elem(&groups, &id);
    if (!group)
        return refuse(DCGYM_DROP_NO_ROUTE);
    if (constants.path_rule == DCGYM_PATH_DRILL) {
        port = drill_port(id);
        return port < 0 ? refuse(-port) : (struct decision){port, DCGYM_DROP_NO_ROUTE};
    }
    is_drawn = constants.path_rule == DCGYM_PATH_SPRAY ? draw_at_random(group, &draw)
                                                       : draw_by_hash(group, key, &draw);
    if (!is_drawn)
        return refuse(DCGYM_DROP_GROUP_BUSY);
    if (keeps_flows() && draw.size > 1)
        draw.ifindex = pinned_member(group, switch_id, key, &draw);
    return (struct decision){draw.ifindex, DCGYM_DROP_NO_ROUTE};
}

/* Headers of each segment of an offloaded packet, from the IP header on. */
static __always_inline __u32 header_bytes(struct __sk_buff *skb) {
    struct ethhdr *eth = (void *)(long)skb->data;
    void *end = (void *)(long)skb->data_end, *l4;
    struct ipv6hdr *ip6 = (void *)(eth + 1);
    struct iphdr *ip = (void *)(eth + 1);
    __u8 protocol;

    if ((void *)(ip + 1) > end)
        return 0;
    if (eth->h_proto == bpf_htons(ETH_P_IP)) {
        l4 = (void *)ip + ip->ihl * 4;
        protocol = ip->protocol;
    } else {
        if ((void *)(ip6 + 1) > end)
            return 0;
        l4 = ip6 + 1;
        protocol = ip6->nexthdr;
    }
    if (protocol == IPPROTO_UDP)
        return l4 - (void *)ip + UDP_HEADER_BYTES;
    if (l4 + TCP_OFFSET_BYTE + 1 > end)
        return 0;
    return l4 - (void *)ip + (*(__u8 *)(l4 + TCP_OFFSET_BYTE) >> 4 << 2);
}

/*
 * The MTU of the way out if a packet, or a segment of it, is larger; else 0. `more` bytes are to be
 * put in front, which offloaded segments make room for.
 */
static __always_inline __u32 exceeded_mtu(struct __sk_buff *skb, __u32 ifindex, __u32 more) {
    __u32 bytes = skb->len - ETH_HLEN + more;
    struct dcgym_port_config *port;

    if (skb->gso_size)
        bytes = skb->gso_size + header_bytes(skb);
    if (bytes <= constants.least_mtu)
        return 0;
    port = bpf_map_lookup_elem(&ports, &ifindex);
    return port && bytes > port->mtu ? port->mtu : 0;
}

#endif
