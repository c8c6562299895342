/* SPDX-License-Identifier: GPL-2.0-only */
/* What a switch reads of a frame, and what it writes into one. */
#ifndef DCGYM_BPF_FABRIC_PACKET_H
#define DCGYM_BPF_FABRIC_PACKET_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>

#include "device_reports.h"
#include "fabric.h"
#include "flow.h"

#define IP_FRAGMENT_MASK 0x3fff /* more-fragments flag and offset, RFC 791 */
#define IP_OFFSET_MASK 0x1fff
#define TCP_FLAGS_OFFSET 13 /* RFC 9293, section 3.1 */
#define TCP_SYN 0x02
#define ICMP_BYTES 8
#define ICMP_UNREACHABLE 3 /* RFC 792 */
#define ICMP_SOURCE_QUENCH 4
#define ICMP_REDIRECT 5
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
#define ICMPV6_TOO_BIG 2 /* RFC 4443 */
#define ICMPV6_TIME_EXCEEDED 3
#define ICMPV6_LAST_ERROR 127

static __always_inline int read_ports(void *l4, void *end, struct flow_key *key) {
    if (key->protocol != IPPROTO_TCP && key->protocol != IPPROTO_UDP)
        return 0;
    if (l4 + sizeof(__u32) > end)
        return -DCGYM_DROP_TRUNCATED;
    key->ports = *(__u32 *)l4;
    if (key->protocol == IPPROTO_TCP && l4 + TCP_FLAGS_OFFSET + 1 <= end)
        key->begins = *(__u8 *)(l4 + TCP_FLAGS_OFFSET) & TCP_SYN;
    return 0;
}

static __always_inline bool is_icmp_error(__u8 type) {
    return type == ICMP_UNREACHABLE || type == ICMP_SOURCE_QUENCH || type == ICMP_REDIRECT ||
           type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER_PROBLEM;
}

/* The ports of a packet as its receiver would send them back. */
static __always_inline void turn_ports(void *l4, void *end, __u8 protocol, struct flow_key *key) {
    if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || l4 + sizeof(__u32) > end)
        return;
    key->ports = *(__u32 *)l4 << 16 | *(__u32 *)l4 >> 16;
}

/* The flow that comes back from the receiver of a packet. */
static __always_inline void turn_ipv4(struct iphdr *ip, void *end, struct flow_key *key) {
    key->source[0] = ip->daddr;
    key->destination[0] = ip->saddr;
    key->protocol = ip->protocol;
    if (!(ip->frag_off & bpf_htons(IP_FRAGMENT_MASK)))
        turn_ports((void *)ip + ip->ihl * 4, end, ip->protocol, key);
}

static __always_inline void turn_ipv6(struct ipv6hdr *ip, void *end, struct flow_key *key) {
    __builtin_memcpy(key->source, &ip->daddr, sizeof(key->source));
    __builtin_memcpy(key->destination, &ip->saddr, sizeof(key->destination));
    key->protocol = ip->nexthdr;
    turn_ports(ip + 1, end, ip->nexthdr, key);
}

/*
 * An ICMP error takes the path of what comes back from the receiver of the packet that it quotes:
 * of several balancers it so meets the one that knows the flow. One that quotes too little, or
 * something else, takes the path of its addresses.
 */
static __always_inline void follow_quoted_ipv4(void *icmp, void *end, struct flow_key *key) {
    struct iphdr *ip = icmp + ICMP_BYTES;

    barrier_var(ip);
    if ((void *)(ip + 1) <= end && is_icmp_error(*((__u8 *)ip - ICMP_BYTES)) &&
        ip->saddr == key->destination[0])
        turn_ipv4(ip, end, key);
}

static __always_inline bool is_same(const __u32 *one, const __u32 *other) {
    return !((one[0] ^ other[0]) | (one[1] ^ other[1]) | (one[2] ^ other[2]) | (one[3] ^ other[3]));
}

static __always_inline void follow_quoted_ipv6(void *icmp, void *end, struct flow_key *key) {
    struct ipv6hdr *ip = icmp + ICMP_BYTES;

    if ((void *)(ip + 1) <= end && *(__u8 *)icmp <= ICMPV6_LAST_ERROR &&
        is_same(ip->saddr.in6_u.u6_addr32, key->destination))
        turn_ipv6(ip, end, key);
}

static __always_inline int parse_ipv4(struct iphdr *ip, void *end, struct flow_key *key) {
    if ((void *)(ip + 1) > end)
        return -DCGYM_DROP_TRUNCATED;
    if (ip->version != 4 || ip->ihl < 5)
        return -DCGYM_DROP_MALFORMED;
    if (ip->ttl <= 1)
        return -DCGYM_DROP_TTL_EXPIRED;
    key->source[0] = ip->saddr;
    key->destination[0] = ip->daddr;
    key->protocol = ip->protocol;
    /* Later fragments carry no ports; all of a datagram must take one path. */
    if (ip->frag_off & bpf_htons(IP_FRAGMENT_MASK))
        return 0;
    if (ip->protocol == IPPROTO_ICMP)
        follow_quoted_ipv4((void *)ip + ip->ihl * 4, end, key);
    else
        return read_ports((void *)ip + ip->ihl * 4, end, key);
    return 0;
}

static __always_inline int parse_ipv6(struct ipv6hdr *ip, void *end, struct flow_key *key) {
    if ((void *)(ip + 1) > end)
        return -DCGYM_DROP_TRUNCATED;
    if (ip->version != 6)
        return -DCGYM_DROP_MALFORMED;
    if (ip->hop_limit <= 1)
        return -DCGYM_DROP_TTL_EXPIRED;
    __builtin_memcpy(key->source, &ip->saddr, sizeof(key->source));
    __builtin_memcpy(key->destination, &ip->daddr, sizeof(key->destination));
    /* A fragment or extension header here is no TCP or UDP: hashed without ports. */
    key->protocol = ip->nexthdr;
    if (ip->nexthdr == IPPROTO_ICMPV6)
        follow_quoted_ipv6(ip + 1, end, key);
    else
        return read_ports(ip + 1, end, key);
    return 0;
}

static __always_inline bool is_tagged(const struct ethhdr *eth) {
    return eth->h_proto == bpf_htons(ETH_P_8021Q) || eth->h_proto == bpf_htons(ETH_P_8021AD);
}

/* Returns 0 or minus a drop reason. */
static __always_inline int parse(struct ethhdr *eth, void *end, struct flow_key *key) {
    switch (eth->h_proto) {
    case bpf_htons(ETH_P_IP):
        return parse_ipv4((void *)(eth + 1), end, key);
    case bpf_htons(ETH_P_IPV6):
        return parse_ipv6((void *)(eth + 1), end, key);
    case bpf_htons(ETH_P_ARP): /* unicast only: broadcast is no fabric MAC */
    case bpf_htons(DCGYM_DEVICE_REPORT_TYPE):
        return 0;
    default:
        return is_tagged(eth) ? -DCGYM_DROP_VLAN : -DCGYM_DROP_PROTOCOL;
    }
}

static __always_inline __u32 host_number(const __u8 *mac) {
    __u32 prefix = mac[0] << 16 | mac[1] << 8 | mac[2];

    if (prefix != DCGYM_MAC_PREFIX)
        return 0;
    return mac[3] << 16 | mac[4] << 8 | mac[5];
}

/* Number that an address stands for, 0 if it is none of the fabric's. */
static __always_inline __u32 number_of_ipv4(__u32 address) {
    address = bpf_ntohl(address);
    return address >> 24 == DCGYM_IP_NETWORK ? address & 0xffffff : 0;
}

static __always_inline __u32 number_of_ipv6(const __u32 *words) {
    const __u32 last = bpf_ntohl(words[3]);

    if (words[0] != bpf_htonl(DCGYM_IPV6_WORD_0) || words[1] || words[2])
        return 0;
    return last >> 24 ? 0 : last;
}

/* Number of the host that a frame is for, 0 if it is for none. */
static __always_inline __u32 receiver(struct ethhdr *eth, void *end) {
    __u32 number = host_number(eth->h_dest);
    struct ipv6hdr *ip6 = (void *)(eth + 1);
    struct iphdr *ip = (void *)(eth + 1);

    if (number != DCGYM_GATEWAY_NUMBER)
        return number;
    if (eth->h_proto == bpf_htons(ETH_P_IP) && (void *)(ip + 1) <= end)
        return number_of_ipv4(ip->daddr);
    if (eth->h_proto == bpf_htons(ETH_P_IPV6) && (void *)(ip6 + 1) <= end)
        return number_of_ipv6(ip6->daddr.in6_u.u6_addr32);
    return 0;
}

/* Headers of offloaded or spliced packets may lie outside the linear part. */
static __always_inline void make_linear(struct __sk_buff *skb) {
    const __u32 most = ETH_HLEN + 2 * sizeof(struct ipv6hdr) + ICMP_BYTES + sizeof(__u32);
    __u32 wanted = skb->len < most ? skb->len : most;

    if ((void *)(long)skb->data + wanted > (void *)(long)skb->data_end)
        bpf_skb_pull_data(skb, wanted);
}

/* RFC 1624, equation 3, for a decrement of the byte that holds the TTL. */
static __always_inline void decrement_ttl(struct iphdr *ip) {
    __u32 check = ip->check;

    check += bpf_htons(0x0100);
    ip->check = (__u16)(check + (check >= 0xffff));
    ip->ttl--;
}

/* The receiver takes only what bears its own MAC: the first switch puts it in the gateway's place.
 */
static __always_inline void address(struct ethhdr *eth, __u32 host) {
    eth->h_dest[3] = host >> 16;
    eth->h_dest[4] = host >> 8;
    eth->h_dest[5] = host;
}

static __always_inline void rewrite(struct __sk_buff *skb, __u32 host) {
    struct ethhdr *eth = (void *)(long)skb->data;
    void *end = (void *)(long)skb->data_end;
    struct ipv6hdr *ip6 = (void *)(eth + 1);
    struct iphdr *ip = (void *)(eth + 1);

    if ((void *)(ip + 1) > end)
        return;
    address(eth, host);
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        decrement_ttl(ip);
    else if (eth->h_proto == bpf_htons(ETH_P_IPV6) && (void *)(ip6 + 1) <= end)
        ip6->hop_limit--;
}

#endif
