/* SPDX-License-Identifier: GPL-2.0-only */
/* Switches as hardware muxes: whom a VIP's packet goes to, and its tunnel there. */
#ifndef DCGYM_BPF_FABRIC_MUX_H
#define DCGYM_BPF_FABRIC_MUX_H

#include "common/ipip.h"
#include "fabric_packet.h"
#include "flow_digest.h"
#include "hmux.h"
#include "route.h"

const volatile struct dcgym_hmux_constants hmux SEC(".rodata.hmux") = {};

/* The loader sets every max_entries before it loads the object. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_vip_entry);
} hmux_vips SEC(".maps");

/* Indexes of tunnels; the VIP's block is as large as its entry says. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, dcgym_hmux_entry);
} hmux_ecmp SEC(".maps");

/* Numbers of the hosts where tunnels end. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} hmux_tunnels SEC(".maps");

struct vip_entry {
    __u32 number; /* to route the packet by, without entries; 0: it is for no VIP */
    __u32 first_entry;
    __u32 n_entries; /* of this switch; 0: the packet goes on as it is */
};

/* The most specific route for an IPv4 packet to a VIP: the /32, else the prefix of all VIPs. */
static __always_inline struct vip_entry match_vip(const struct dcgym_port_config *port,
                                                  struct ethhdr *eth, void *end) {
    struct iphdr *ip = (void *)(eth + 1);
    struct vip_entry found = {};
    struct dcgym_vip_entry entry;
    __u32 index;
    __u64 *word;

    if (eth->h_proto != bpf_htons(ETH_P_IP) || (void *)(ip + 1) > end)
        return found;
    index = number_of_ipv4(ip->daddr) - hmux.first_vip;
    if (index >= hmux.n_vips)
        return found;
    index += port->switch_id * hmux.n_vips;
    word = bpf_map_lookup_elem(&hmux_vips, &index);
    if (word) {
        __u64 value = *(volatile __u64 *)word;

        __builtin_memcpy(&entry, &value, sizeof(entry));
        found.number = entry.number;
        if (entry.number >= hmux.first_vip || port->to_host) {
            found.first_entry = entry.first_entry;
            found.n_entries = entry.n_entries;
        }
    }
    if (!found.number)
        found.number = hmux.software_mux;
    return found;
}

/* Number of the server of a flow, 0 if its entry is not in use. */
static __always_inline __u32 find_dip(__u32 switch_id, const struct vip_entry *vip,
                                      const struct flow_key *key) {
    const struct dcgym_five_tuple flow = {
        .from = key->source,
        .to = key->destination,
        .from_port = key->ports & 0xffff,
        .to_port = key->ports >> 16,
        .protocol = key->protocol,
    };
    const __u64 digest = dcgym_flow_digest(hmux.seed, &flow);
    __u32 index = switch_id * hmux.ecmp_entries + vip->first_entry;
    dcgym_hmux_entry *entry;
    __u32 *dip;

    index += dcgym_scale(digest >> 32, vip->n_entries);
    entry = bpf_map_lookup_elem(&hmux_ecmp, &index);
    if (!entry || !*(volatile dcgym_hmux_entry *)entry)
        return 0;
    index = switch_id * hmux.tunnel_entries + *(volatile dcgym_hmux_entry *)entry - 1;
    dip = bpf_map_lookup_elem(&hmux_tunnels, &index);
    return dip ? *(volatile __u32 *)dip : 0;
}

/*
 * Puts a packet into the tunnel to a server. The switch forwards it, so the inner time to live
 * falls too (RFC 2003, section 3.1). Offloaded segments shrink so as to fit where they fitted.
 */
static __always_inline bool encapsulate(struct __sk_buff *skb, __u32 switch_id, __u32 dip) {
    const __u32 from = DCGYM_IP_NETWORK << 24 | (DCGYM_FIRST_SWITCH_NUMBER + switch_id);
    struct iphdr *ip = (void *)(long)skb->data + ETH_HLEN;

    if ((void *)(ip + 1) > (void *)(long)skb->data_end)
        return false;
    decrement_ttl(ip);
    if (bpf_skb_adjust_room(skb, sizeof(*ip), BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_ENCAP_L3_IPV4))
        return false;
    make_linear(skb);
    ip = (void *)(long)skb->data + ETH_HLEN;
    return write_outer_ipv4(ip, (void *)(long)skb->data_end, bpf_htonl(from),
                            bpf_htonl(DCGYM_IP_NETWORK << 24 | dip));
}

#endif
