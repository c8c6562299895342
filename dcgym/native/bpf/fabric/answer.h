/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a switch tells the sender of a packet that it drops: its time is exceeded, or it is too big
 * (RFC 792, RFC 1191, RFC 4443). Errors about errors, about later fragments of IPv4, and to
 * addresses that are no host's are not sent, nor more of them than the limit allows.
 */
#ifndef DCGYM_BPF_FABRIC_ANSWER_H
#define DCGYM_BPF_FABRIC_ANSWER_H

#include <stddef.h>

#include "route.h"

#define ANSWER_TTL 64
#define ANSWER_TOS 0xc0 /* internetwork control, RFC 1812, section 4.3.2.5 */
#define QUOTE_BYTES 512 /* of the dropped packet, at most: so the answer has no more than 576 */
#define FRAGMENTATION_NEEDED 4
#define LIMIT_RETRIES 4

struct icmp_error {
    __u8 type;
    __u8 code;
    __u16 checksum;
    __u16 unused;
    __u16 mtu; /* in IPv6 the low half of 32 bits */
};

struct ipv4_answer {
    struct ethhdr eth;
    struct iphdr ip;
    struct icmp_error icmp;
} __attribute__((packed));

struct ipv6_answer {
    struct ethhdr eth;
    struct ipv6hdr ip;
    struct icmp_error icmp;
} __attribute__((packed));

/* The dropped packet's first bytes; zeros behind them do not change a checksum. */
struct quote {
    __u8 bytes[QUOTE_BYTES];
    __u32 n;
};

/* Too large for the stack. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct quote);
} quotes SEC(".maps");

static __always_inline __u16 fold(__s64 sum) {
    sum = (sum & 0xffff) + ((__u32)sum >> 16);
    return ~((sum & 0xffff) + (sum >> 16));
}

static __always_inline __s64 sum_of(void *words, __u32 bytes, __s64 before) {
    return bpf_csum_diff(NULL, 0, words, bytes, before);
}

/* Takes one answer of a switch's limit; false if there is none left. */
static __always_inline bool may_answer(__u32 switch_id) {
    const __u64 now_ns = bpf_ktime_get_ns();
    const __u64 burst_ns = DCGYM_ANSWER_BURST * DCGYM_ANSWER_INTERVAL_NS;
    __u64 *used = bpf_map_lookup_elem(&answers, &switch_id);

    if (!used)
        return false;
    for (int i = 0; i < LIMIT_RETRIES; i++) {
        const __u64 seen_ns = *(volatile __u64 *)used;
        __u64 next_ns = seen_ns + burst_ns < now_ns ? now_ns - burst_ns : seen_ns;

        next_ns += DCGYM_ANSWER_INTERVAL_NS;
        if (next_ns > now_ns)
            return false;
        if (__sync_val_compare_and_swap(used, seen_ns, next_ns) == seen_ns)
            return true;
    }
    return false;
}

static __always_inline void write_ethernet(struct ethhdr *eth, __u32 host, __u16 protocol) {
    const __u32 prefix = DCGYM_MAC_PREFIX, from = DCGYM_GATEWAY_NUMBER;

    *eth = (struct ethhdr){
        .h_dest = {prefix >> 16, prefix >> 8 & 0xff, prefix & 0xff, host >> 16, host >> 8, host},
        .h_source = {prefix >> 16, prefix >> 8 & 0xff, prefix & 0xff, from >> 16, from >> 8 & 0xff,
                     from & 0xff},
        .h_proto = protocol,
    };
}

/* NULL if there is nothing to quote; `bytes` are those of the packet by its own header. */
static __always_inline struct quote *take_quote(struct __sk_buff *skb, __u32 bytes) {
    __u32 n = skb->len - ETH_HLEN, zero = 0;
    struct quote *quote = bpf_map_lookup_elem(&quotes, &zero);

    if (bytes && bytes < n) /* what follows is padding */
        n = bytes;
    if (n > QUOTE_BYTES)
        n = QUOTE_BYTES;
    barrier_var(n);
    if (!quote || n == 0 || n > QUOTE_BYTES)
        return NULL;
    __builtin_memset(quote->bytes, 0, sizeof(quote->bytes));
    quote->n = n;
    return bpf_skb_load_bytes(skb, ETH_HLEN, quote->bytes, n) ? NULL : quote;
}

static __always_inline bool put(struct __sk_buff *skb, void *headers, __u32 bytes,
                                struct quote *quote) {
    __u32 n = quote->n;

    barrier_var(n);
    if (n == 0 || n > QUOTE_BYTES)
        return false;
    return !bpf_skb_change_tail(skb, bytes + n, 0) &&
           !bpf_skb_store_bytes(skb, 0, headers, bytes, 0) &&
           !bpf_skb_store_bytes(skb, bytes, quote->bytes, n, 0);
}

/* Where the answer leaves by, 0 if nobody may have one. */
static __always_inline __u32 way_back(__u32 switch_id, __u32 host, struct flow_key *key) {
    if (!host || host > constants.n_hosts)
        return 0;
    return next_hop(switch_id, host, key).ifindex;
}

/* Not inlined, as is the other family's, so that the way of all other packets is short. */
__noinline __u32 answer_ipv4(struct __sk_buff *skb, __u32 switch_id, __u32 mtu) {
    struct iphdr *ip = (void *)(long)skb->data + ETH_HLEN;
    void *end = (void *)(long)skb->data_end, *icmp;
    struct ipv4_answer answer = {};
    struct quote *quote;
    struct flow_key key = {};
    __u32 host, ifindex;

    if ((void *)(ip + 1) > end || ip->frag_off & bpf_htons(IP_OFFSET_MASK))
        return 0;
    icmp = (void *)ip + ip->ihl * 4;
    if (ip->protocol == IPPROTO_ICMP && (icmp + 1 > end || is_icmp_error(*(__u8 *)icmp)))
        return 0;
    host = number_of_ipv4(ip->saddr);
    answer.ip = (struct iphdr){
        .version = 4,
        .ihl = sizeof(*ip) / 4,
        .tos = ANSWER_TOS,
        .ttl = ANSWER_TTL,
        .protocol = IPPROTO_ICMP,
        .saddr = bpf_htonl(DCGYM_IP_NETWORK << 24 | (DCGYM_FIRST_SWITCH_NUMBER + switch_id)),
        .daddr = ip->saddr,
    };
    turn_ipv4(ip, end, &key);
    ifindex = way_back(switch_id, host, &key);
    quote = ifindex ? take_quote(skb, bpf_ntohs(ip->tot_len)) : NULL;
    if (!quote || !may_answer(switch_id))
        return 0;
    answer.icmp.type = mtu ? ICMP_UNREACHABLE : ICMP_TIME_EXCEEDED;
    answer.icmp.code = mtu ? FRAGMENTATION_NEEDED : 0;
    answer.icmp.mtu = bpf_htons(mtu);
    answer.icmp.checksum = fold(
        sum_of(quote->bytes, sizeof(quote->bytes), sum_of(&answer.icmp, sizeof(answer.icmp), 0)));
    answer.ip.tot_len = bpf_htons(sizeof(answer.ip) + sizeof(answer.icmp) + quote->n);
    answer.ip.check = fold(sum_of(&answer.ip, sizeof(answer.ip), 0));
    write_ethernet(&answer.eth, host, bpf_htons(ETH_P_IP));
    return put(skb, &answer, sizeof(answer), quote) ? ifindex : 0;
}

__noinline __u32 answer_ipv6(struct __sk_buff *skb, __u32 switch_id, __u32 mtu) {
    struct ipv6hdr *ip = (void *)(long)skb->data + ETH_HLEN;
    void *end = (void *)(long)skb->data_end;
    struct ipv6_answer answer = {};
    struct quote *quote;
    struct flow_key key = {};
    __u32 host, ifindex;
    __s64 sum;

    if ((void *)(ip + 1) > end ||
        (ip->nexthdr == IPPROTO_ICMPV6 &&
         ((void *)(ip + 1) + 1 > end || *(__u8 *)(ip + 1) <= ICMPV6_LAST_ERROR)))
        return 0;
    host = number_of_ipv6(ip->saddr.in6_u.u6_addr32);
    turn_ipv6(ip, end, &key);
    answer.ip.version = 6;
    answer.ip.nexthdr = IPPROTO_ICMPV6;
    answer.ip.hop_limit = ANSWER_TTL;
    answer.ip.saddr.in6_u.u6_addr32[0] = bpf_htonl(DCGYM_IPV6_WORD_0);
    answer.ip.saddr.in6_u.u6_addr32[3] = bpf_htonl(DCGYM_FIRST_SWITCH_NUMBER + switch_id);
    answer.ip.daddr = ip->saddr;
    ifindex = way_back(switch_id, host, &key);
    quote = ifindex ? take_quote(skb, bpf_ntohs(ip->payload_len) + sizeof(*ip)) : NULL;
    if (!quote || !may_answer(switch_id))
        return 0;
    answer.icmp.type = mtu ? ICMPV6_TOO_BIG : ICMPV6_TIME_EXCEEDED;
    answer.icmp.mtu = bpf_htons(mtu);
    answer.ip.payload_len = bpf_htons(sizeof(answer.icmp) + quote->n);
    /* The pseudo-header: both addresses, the length and the protocol (RFC 8200, section 8.1). */
    sum = sum_of(&answer.ip.saddr, 2 * sizeof(answer.ip.saddr),
                 answer.ip.payload_len + bpf_htons(IPPROTO_ICMPV6));
    sum = sum_of(&answer.icmp, sizeof(answer.icmp), sum);
    answer.icmp.checksum = fold(sum_of(quote->bytes, sizeof(quote->bytes), sum));
    write_ethernet(&answer.eth, host, bpf_htons(ETH_P_IPV6));
    return put(skb, &answer, sizeof(answer), quote) ? ifindex : 0;
}

/*
 * Makes a dropped packet the answer to its sender: too big where there is an MTU, else its time is
 * exceeded. The interface that it is to leave by, 0 if there is no answer.
 */
static __always_inline __u32 answer(struct __sk_buff *skb, __u32 mtu) {
    __u32 ifindex = skb->ifindex;
    struct dcgym_port_config *port = bpf_map_lookup_elem(&ports, &ifindex);
    struct ethhdr *eth = (void *)(long)skb->data;

    if (!port || (void *)(eth + 1) > (void *)(long)skb->data_end)
        return 0;
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        return answer_ipv4(skb, port->switch_id, mtu);
    if (eth->h_proto == bpf_htons(ETH_P_IPV6))
        return answer_ipv6(skb, port->switch_id, mtu);
    return 0;
}

#endif
