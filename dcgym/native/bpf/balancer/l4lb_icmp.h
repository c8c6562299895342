/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ICMP for a VIP: errors go to the server whose packet they quote, as they say what path MTU that
 * server must keep to (RFC 1191, RFC 8201); echo requests are answered by the balancer.
 */
#ifndef DCGYM_BPF_L4LB_ICMP_H
#define DCGYM_BPF_L4LB_ICMP_H

#include "l4lb_packet.h"

#define ICMP_TYPE_ECHO 8 /* RFC 792 */
#define ICMP_TYPE_UNREACHABLE 3
#define ICMP_TYPE_TIME_EXCEEDED 11
#define ICMP_TYPE_PARAMETER_PROBLEM 12
#define ICMPV6_TYPE_LAST_ERROR 4 /* of those that report one packet, RFC 4443 */
#define ICMPV6_TYPE_ECHO 128
#define ICMPV6_TYPE_ECHO_REPLY 129
#define IP_OFFSET_MASK 0x1fff
#define ECHO_TTL 64

struct icmp {
    __u8 type;
    __u8 code;
    __u16 checksum;
    __u32 rest;
};

static __always_inline bool reports_packet(__u8 version, __u8 type) {
    if (version == 6)
        return type && type <= ICMPV6_TYPE_LAST_ERROR;
    return type == ICMP_TYPE_UNREACHABLE || type == ICMP_TYPE_TIME_EXCEEDED ||
           type == ICMP_TYPE_PARAMETER_PROBLEM;
}

/* The quoted packet is a server's, from the VIP to a client. */
static __always_inline int parse_quoted_ports(void *l4, void *end, __u8 protocol,
                                              struct arrival *arrival) {
    barrier_var(l4);
    if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
        return refuse_ours(arrival, DCGYM_LB_DROP_PROTOCOL);
    if (l4 + 2 * sizeof(__u16) > end)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    arrival->to.protocol = protocol;
    arrival->to.port = *(__u16 *)l4;
    arrival->from_port = *(__u16 *)(l4 + sizeof(__u16));
    arrival->quoted = true;
    return FOR_BALANCER;
}

static __always_inline int parse_quoted_ipv4(struct iphdr *ip, void *end, struct arrival *arrival) {
    __u32 client, vip;
    int found;

    if ((void *)(ip + 1) > end)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    if (ip->version != 4 || ip->ihl < 5)
        return refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    if (ip->frag_off & bpf_htons(IP_OFFSET_MASK))
        return refuse_ours(arrival, DCGYM_LB_DROP_FRAGMENT);
    client = ip->daddr;
    vip = ip->saddr;
    found = parse_quoted_ports((void *)ip + ip->ihl * 4, end, ip->protocol, arrival);
    if (found == FOR_BALANCER) {
        arrival->from[0] = client;
        arrival->to.address[0] = vip;
    }
    return found;
}

static __always_inline int parse_quoted_ipv6(struct ipv6hdr *ip, void *end,
                                             struct arrival *arrival) {
    int found;

    if ((void *)(ip + 1) > end)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    if (ip->version != 6)
        return refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    found = parse_quoted_ports(ip + 1, end, ip->nexthdr, arrival);
    if (found == FOR_BALANCER) {
        __builtin_memcpy(arrival->from, &ip->daddr, sizeof(arrival->from));
        __builtin_memcpy(arrival->to.address, &ip->saddr, sizeof(arrival->to.address));
    }
    return found;
}

/*
 * FOR_BALANCER: an error, and `arrival` is what the quoted packet's client would send. FOR_SENDER:
 * an echo request. Neighbours and listeners (RFC 4861, RFC 2710) are the stack's.
 */
static __always_inline int parse_icmp(const struct frame *frame, struct arrival *arrival) {
    const bool ipv6 = arrival->to.version == 6;
    struct icmp *icmp = arrival->l4;

    if ((void *)(icmp + 1) > frame->end)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    if (reports_packet(arrival->to.version, icmp->type))
        return ipv6 ? parse_quoted_ipv6((void *)(icmp + 1), frame->end, arrival)
                    : parse_quoted_ipv4((void *)(icmp + 1), frame->end, arrival);
    if (ipv6 && icmp->type > ICMPV6_TYPE_ECHO_REPLY)
        return FOR_STACK;
    if (icmp->type != (ipv6 ? ICMPV6_TYPE_ECHO : ICMP_TYPE_ECHO))
        return refuse_ours(arrival, DCGYM_LB_DROP_PROTOCOL);
    return refuse_ours(arrival, DCGYM_LB_ECHOES) == FOR_STACK ? FOR_STACK : FOR_SENDER;
}

/* RFC 1624 */
static __always_inline __u16 checksum_after(__u16 checksum, __u16 old, __u16 new) {
    __u32 sum = (__u16)~checksum + (__u32)(__u16)~old + new;

    sum = (sum & 0xffff) + (sum >> 16);
    return ~((sum & 0xffff) + (sum >> 16));
}

static __always_inline bool turn_ipv4(struct iphdr *ip, const void *end) {
    __u16 *lifetime = (__u16 *)&ip->ttl, old;
    __u32 from;

    if ((const void *)(ip + 1) > end)
        return false;
    from = ip->saddr;
    old = *lifetime;
    ip->saddr = ip->daddr;
    ip->daddr = from;
    ip->ttl = ECHO_TTL;
    ip->check = checksum_after(ip->check, old, *lifetime);
    return true;
}

static __always_inline bool turn_ipv6(struct ipv6hdr *ip, const void *end) {
    struct in6_addr from;

    if ((const void *)(ip + 1) > end)
        return false;
    from = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = from;
    ip->hop_limit = ECHO_TTL;
    return true;
}

/* Makes an echo request its reply. The MAC that it goes to, 0 if it cannot be. */
static __always_inline __u64 answer_echo(const struct frame *frame, const struct arrival *arrival) {
    const bool ipv6 = arrival->to.version == 6;
    struct ethhdr *eth = frame->data;
    struct icmp *icmp = arrival->l4;
    __u64 sender = 0;
    __u16 old;

    if ((const void *)(eth + 1) > frame->end || (const void *)(icmp + 1) > frame->end)
        return 0;
    __builtin_memcpy(&sender, eth->h_source, sizeof(eth->h_source));
    old = *(__u16 *)icmp;
    icmp->type = ipv6 ? ICMPV6_TYPE_ECHO_REPLY : 0;
    icmp->checksum = checksum_after(icmp->checksum, old, *(__u16 *)icmp);
    if (ipv6 ? !turn_ipv6((void *)(eth + 1), frame->end)
             : !turn_ipv4((void *)(eth + 1), frame->end))
        return 0;
    count(DCGYM_LB_ECHOES);
    return sender;
}

#endif
