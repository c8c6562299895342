/* SPDX-License-Identifier: GPL-2.0-only */
/* The outer header of IPv4 in IPv4 (RFC 2003). */
#ifndef DCGYM_BPF_IPIP_H
#define DCGYM_BPF_IPIP_H

#define TUNNEL_HOPS 64
#define IP_DONT_FRAGMENT 0x4000

/* RFC 1071; a header of IPv4 without options. */
static __always_inline __u16 header_checksum(const struct iphdr *ip) {
    __u32 sum = bpf_csum_diff(NULL, 0, (void *)ip, sizeof(*ip), 0);

    sum = (sum & 0xffff) + (sum >> 16);
    return ~(__u16)((sum & 0xffff) + (sum >> 16));
}

/*
 * The inner header follows the outer one; ECN and DSCP are copied out (RFC 6040, section 4.1).
 * Addresses in network order.
 */
static __always_inline bool write_outer_ipv4(struct iphdr *outer, void *end, __u32 from, __u32 to) {
    const struct iphdr *inner = outer + 1;
    __u32 bytes;

    if ((void *)(inner + 1) > end)
        return false;
    bytes = bpf_ntohs(inner->tot_len) + sizeof(*outer);
    if (bytes > 0xffff)
        return false;
    *outer = (struct iphdr){
        .ihl = 5,
        .version = 4,
        .tos = inner->tos,
        .tot_len = bpf_htons(bytes),
        .frag_off = bpf_htons(IP_DONT_FRAGMENT),
        .ttl = TUNNEL_HOPS,
        .protocol = IPPROTO_IPIP,
        .saddr = from,
        .daddr = to,
    };
    outer->check = header_checksum(outer);
    return true;
}

#endif
