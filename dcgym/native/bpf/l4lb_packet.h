/* SPDX-License-Identifier: GPL-2.0 */
/* What a packet says to the balancer: which VIP it is for, which flow it is of, what it changes. */
#ifndef DCGYM_BPF_L4LB_PACKET_H
#define DCGYM_BPF_L4LB_PACKET_H

#define IP_FRAGMENT_MASK 0x3fff /* more-fragments flag and offset, RFC 791 */
#define TCP_FLAGS_OFFSET 13     /* RFC 9293, section 3.1 */
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* The parser's findings beside minus a counter: none of the balancer's business. */
#define FOR_BALANCER 1
#define FOR_STACK 2

struct arrival {
    struct dcgym_lb_vip_key to;
    __u32 from[DCGYM_LB_ADDRESS_WORDS];
    __u32 from_port;
    __u32 vip;
    __u64 digest;
    __u64 now_ns;
    bool syn;
    bool opens; /* may begin a flow */
    bool ends;
};

/* A refused packet is dropped only if it is for one of our addresses. */
static __always_inline int refuse_ours(const struct arrival *arrival, __u32 reason) {
    struct dcgym_lb_vip_key address = arrival->to;

    address.port = 0;
    address.protocol = 0;
    return bpf_map_lookup_elem(&vips, &address) ? -(int)reason : FOR_STACK;
}

static __always_inline int parse_tcp(void *l4, void *end, struct arrival *arrival) {
    __u8 flags, words;

    if (l4 + sizeof(struct tcphdr) > end)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    words = *(__u8 *)(l4 + TCP_FLAGS_OFFSET - 1) >> 4;
    flags = *(__u8 *)(l4 + TCP_FLAGS_OFFSET);
    /* Clients open with a SYN alone, and every other packet of a connection has RST or ACK. */
    if (words < 5 || ((flags & TCP_SYN) && (flags & (TCP_FIN | TCP_RST | TCP_ACK))) ||
        !(flags & (TCP_SYN | TCP_RST | TCP_ACK)))
        return refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    arrival->syn = arrival->opens = flags & TCP_SYN;
    arrival->ends = flags & (TCP_FIN | TCP_RST);
    return FOR_BALANCER;
}

static __always_inline int parse_udp(void *l4, void *end, struct arrival *arrival) {
    struct udphdr *udp = l4;

    if ((void *)(udp + 1) > end)
        return refuse_ours(arrival, DCGYM_LB_DROP_TRUNCATED);
    if (bpf_ntohs(udp->len) < sizeof(*udp))
        return refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    arrival->opens = true;
    return FOR_BALANCER;
}

static __always_inline int parse_ports(void *l4, void *end, struct arrival *arrival) {
    int result;

    if (arrival->to.protocol == IPPROTO_TCP)
        result = parse_tcp(l4, end, arrival);
    else
        result = parse_udp(l4, end, arrival);
    if (result != FOR_BALANCER)
        return result;
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
    if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP)
        return FOR_STACK;
    if (ip->frag_off & bpf_htons(IP_FRAGMENT_MASK))
        return refuse_ours(arrival, DCGYM_LB_DROP_FRAGMENT);
    arrival->to.protocol = ip->protocol;
    return parse_ports((void *)ip + ip->ihl * 4, end, arrival);
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
    if (ip->nexthdr != IPPROTO_TCP && ip->nexthdr != IPPROTO_UDP)
        return FOR_STACK;
    arrival->to.protocol = ip->nexthdr;
    return parse_ports(ip + 1, end, arrival);
}

/* Headers of offloaded or spliced packets may lie outside the linear part. */
static __always_inline void make_linear(struct __sk_buff *skb) {
    const __u32 most = ETH_HLEN + 60 + sizeof(struct tcphdr);
    __u32 wanted = skb->len < most ? skb->len : most;

    if ((void *)(long)skb->data + wanted > (void *)(long)skb->data_end)
        bpf_skb_pull_data(skb, wanted);
}

/* FOR_BALANCER, FOR_STACK, or minus the counter of a dropped packet. */
static __always_inline int parse(struct __sk_buff *skb, struct arrival *arrival) {
    struct ethhdr *eth;
    __u64 mac = 0;
    void *end;

    make_linear(skb);
    eth = (void *)(long)skb->data;
    end = (void *)(long)skb->data_end;
    if ((void *)(eth + 1) > end)
        return FOR_STACK;
    __builtin_memcpy(&mac, eth->h_dest, sizeof(eth->h_dest));
    /* What a bridge floods is not for us; forwarded too, it would come twice. */
    if (mac != control.mac)
        return FOR_STACK;
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        return parse_ipv4((void *)(eth + 1), end, skb->len - ETH_HLEN, arrival);
    if (eth->h_proto == bpf_htons(ETH_P_IPV6))
        return parse_ipv6((void *)(eth + 1), end, skb->len - ETH_HLEN, arrival);
    return FOR_STACK;
}

static __always_inline __u64 word_pair(const __u32 *words) {
    return (__u64)words[0] << 32 | words[1];
}

/* 64 bits of the five-tuple; the bytes of addresses and ports as they lie in memory. */
static __always_inline __u64 digest(const struct arrival *arrival) {
    const struct dcgym_lb_vip_key *to = &arrival->to;
    __u64 hash = constants.seed;

    hash = dcgym_lb_hash(hash, (__u64)arrival->from[0] << 32 | to->address[0]);
    if (to->version == 6) {
        hash = dcgym_lb_hash(hash, (__u64)arrival->from[1] << 32 | to->address[1]);
        hash = dcgym_lb_hash(hash, word_pair(arrival->from + 2));
        hash = dcgym_lb_hash(hash, word_pair(to->address + 2));
    }
    return dcgym_lb_hash(hash,
                         (__u64)arrival->from_port << 32 | (__u32)to->port << 16 | to->protocol);
}

#endif
