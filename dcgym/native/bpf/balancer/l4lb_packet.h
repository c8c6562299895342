/* SPDX-License-Identifier: GPL-2.0-only */
/* What a packet says to the balancer: which VIP it is for, which flow it is of, what it changes. */
#ifndef DCGYM_BPF_L4LB_PACKET_H
#define DCGYM_BPF_L4LB_PACKET_H

#include "flow_digest.h"
#include "l4lb_options.h"
#include "l4lb_vips.h"

#define IP_FRAGMENT_MASK 0x3fff /* more-fragments flag and offset, RFC 791 */
#define TCP_FLAGS_OFFSET 13     /* RFC 9293, section 3.1 */
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* Whom a packet is for; the findings beside minus a counter. */
enum finding {
    FOR_BALANCER = 1,
    FOR_STACK,  /* none of the balancer's business */
    FOR_ICMP,   /* ICMP of its IP version, not looked at yet */
    FOR_CLIENT, /* a SYN-ACK on its way back */
    FOR_SENDER, /* an echo request to a VIP, to be answered */
    FOR_NOBODY, /* a message to the balancer, which has been taken in */
};

struct arrival {
    struct dcgym_lb_vip_key to;
    __u32 from[DCGYM_LB_ADDRESS_WORDS];
    __u32 from_port;
    __u32 vip;
    __u64 digest;
    __u64 now_ns;
    void *l4;
    __u32 tcp_bytes; /* of the header; 0: not TCP */
    __u32 cookie;    /* the server's number that the packet bears */
    bool syn;
    bool opens; /* may begin a flow */
    bool ends;
    bool resets;
    bool has_data;
    bool quoted;  /* not a packet of this flow, but an ICMP error about its server's */
    bool returns; /* a server's SYN-ACK */
    bool stamped; /* has the timestamps option */
};

/* A refused packet is dropped only if it is for one of our addresses. */
static __always_inline int refuse_ours(const struct arrival *arrival, __u32 reason) {
    struct dcgym_lb_vip_key address = arrival->to;

    address.port = 0;
    address.protocol = 0;
    return bpf_map_lookup_elem(&vips, &address) ? -(int)reason : FOR_STACK;
}

static __always_inline int parse_tcp(void *l4, void *end, __u32 bytes, struct arrival *arrival) {
    __u8 flags;

    if (l4 + sizeof(struct tcphdr) > end)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    arrival->tcp_bytes = *(__u8 *)(l4 + TCP_FLAGS_OFFSET - 1) >> 4 << 2;
    flags = *(__u8 *)(l4 + TCP_FLAGS_OFFSET);
    arrival->syn = arrival->opens = flags & TCP_SYN;
    arrival->ends = flags & (TCP_FIN | TCP_RST);
    arrival->resets = flags & TCP_RST;
    arrival->has_data = bytes > arrival->tcp_bytes;
    arrival->returns = arrival->syn && (flags & TCP_ACK);
    /* Clients open with a SYN alone, and every other packet of a connection has RST or ACK. */
    if (arrival->tcp_bytes < sizeof(struct tcphdr) || bytes < arrival->tcp_bytes ||
        (arrival->syn && arrival->ends) || !(flags & (TCP_SYN | TCP_RST | TCP_ACK)))
        return refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    return FOR_BALANCER;
}

static __always_inline int parse_udp(void *l4, void *end, __u32 bytes, struct arrival *arrival) {
    struct udphdr *udp = l4;

    if ((void *)(udp + 1) > end)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    if (bpf_ntohs(udp->len) < sizeof(*udp) || bpf_ntohs(udp->len) > bytes)
        return refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    arrival->opens = true;
    return FOR_BALANCER;
}

/* `bytes` are those behind the IP header, by that header. */
static __always_inline int parse_ports(void *l4, void *end, __u32 bytes, struct arrival *arrival) {
    int result;

    barrier_var(l4); /* else it is computed twice, and the verifier takes that for two pointers */
    if (arrival->to.protocol == IPPROTO_TCP)
        result = parse_tcp(l4, end, bytes, arrival);
    else
        result = parse_udp(l4, end, bytes, arrival);
    if (result != FOR_BALANCER)
        return result;
    arrival->l4 = l4;
    arrival->from_port = *(__u16 *)l4;
    arrival->to.port = *(__u16 *)(l4 + sizeof(__u16));
    return FOR_BALANCER;
}

static __always_inline int parse_ipv4(struct iphdr *ip, void *end, __u32 bytes,
                                      struct arrival *arrival) {
    if ((void *)(ip + 1) > end)
        return -DCGYM_LB_DROP_TRUNCATED;
    arrival->to.version = 4;
    arrival->to.address[0] = ip->daddr;
    arrival->from[0] = ip->saddr;
    if (ip->version != 4 || ip->ihl < 5 || bpf_ntohs(ip->tot_len) < ip->ihl * 4)
        return refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    if (bpf_ntohs(ip->tot_len) > bytes)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    if (ip->frag_off & bpf_htons(IP_FRAGMENT_MASK))
        return refuse_ours(arrival, DCGYM_LB_DROP_FRAGMENT);
    arrival->to.protocol = ip->protocol;
    if (ip->protocol == IPPROTO_ICMP) {
        arrival->l4 = (void *)ip + ip->ihl * 4;
        return FOR_ICMP;
    }
    if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP)
        return refuse_ours(arrival, DCGYM_LB_DROP_PROTOCOL);
    return parse_ports((void *)ip + ip->ihl * 4, end, bpf_ntohs(ip->tot_len) - ip->ihl * 4,
                       arrival);
}

/* Headers that may stand between IPv6 and TCP or UDP (RFC 8200, section 4). */
static __always_inline bool is_extension(__u8 next) {
    return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS ||
           next == IPPROTO_AH || next == IPPROTO_ESP || next == IPPROTO_MH;
}

static __always_inline int parse_ipv6(struct ipv6hdr *ip, void *end, __u32 bytes,
                                      struct arrival *arrival) {
    if ((void *)(ip + 1) > end)
        return -DCGYM_LB_DROP_TRUNCATED;
    arrival->to.version = 6;
    __builtin_memcpy(arrival->to.address, &ip->daddr, sizeof(arrival->to.address));
    __builtin_memcpy(arrival->from, &ip->saddr, sizeof(arrival->from));
    if (ip->version != 6)
        return refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    if (bpf_ntohs(ip->payload_len) + sizeof(*ip) > bytes)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    if (ip->nexthdr == IPPROTO_FRAGMENT)
        return refuse_ours(arrival, DCGYM_LB_DROP_FRAGMENT);
    if (is_extension(ip->nexthdr))
        return refuse_ours(arrival, DCGYM_LB_DROP_EXTENSION);
    arrival->to.protocol = ip->nexthdr;
    if (ip->nexthdr == IPPROTO_ICMPV6) {
        arrival->l4 = ip + 1;
        return FOR_ICMP;
    }
    if (ip->nexthdr != IPPROTO_TCP && ip->nexthdr != IPPROTO_UDP)
        return refuse_ours(arrival, DCGYM_LB_DROP_PROTOCOL);
    return parse_ports(ip + 1, end, bpf_ntohs(ip->payload_len), arrival);
}

/* VLANs are none of the balancer's business (IEEE 802.1Q, 802.1ad). */
static __always_inline bool is_tagged(const struct frame *frame) {
    const struct ethhdr *eth = frame->data;

    if (frame->tagged)
        return true;
    return (const void *)(eth + 1) <= frame->end &&
           (eth->h_proto == bpf_htons(ETH_P_8021Q) || eth->h_proto == bpf_htons(ETH_P_8021AD));
}

/*
 * FOR_BALANCER, FOR_ICMP, FOR_STACK, or minus the counter of a dropped packet. Whose packet it is,
 * is not looked at, but for those that are refused.
 */
static __always_inline int parse(const struct frame *frame, struct arrival *arrival) {
    struct ethhdr *eth = frame->data;

    if ((void *)(eth + 1) > frame->end || frame->tagged)
        return FOR_STACK;
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        return parse_ipv4((void *)(eth + 1), frame->end, frame->bytes - ETH_HLEN, arrival);
    if (eth->h_proto == bpf_htons(ETH_P_IPV6))
        return parse_ipv6((void *)(eth + 1), frame->end, frame->bytes - ETH_HLEN, arrival);
    return FOR_STACK;
}

/* What to look up a server's packet by: it comes from the VIP. */
static __always_inline struct dcgym_lb_vip_key sender(const struct arrival *arrival) {
    struct dcgym_lb_vip_key key = {.port = arrival->from_port,
                                   .protocol = arrival->to.protocol,
                                   .version = arrival->to.version};

    __builtin_memcpy(key.address, arrival->from, sizeof(key.address));
    return key;
}

static __always_inline __u64 digest(const struct arrival *arrival, __u64 seed) {
    const struct dcgym_five_tuple flow = {
        .from = arrival->from,
        .to = arrival->to.address,
        .from_port = arrival->from_port,
        .to_port = arrival->to.port,
        .protocol = arrival->to.protocol,
        .is_ipv6 = arrival->to.version == 6,
    };

    return dcgym_flow_digest(seed, &flow);
}

#endif
