// SPDX-License-Identifier: GPL-2.0
/* Switch data plane: ingress forwards by host number, egress marks and records the backlog. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "fabric.h"
#include "flow.h"
#include "kernel_queue.h"

#define IP_FRAGMENT_MASK 0x3fff /* more-fragments flag and offset, RFC 791 */
#define PEAK_RETRIES 8
#define TCP_FLAGS_OFFSET 13 /* RFC 9293, section 3.1 */
#define TCP_SYN 0x02
#define RED_ONE (1ull << 32)
#define RED_PACKET_BYTES 1500 /* whose time on the wire the port states */
#define MOST_IDLE_PACKETS 0xffffffffull

/* The loader sets every max_entries before it loads the object. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_port_config);
} ports SEC(".maps");

/* group id + 1 at [switch_id * constants.n_hosts + host number - 1]; 0: no route */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} routes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_port_counters);
} counters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct dcgym_red);
} red_states SEC(".maps");

/* bytes at [port_id * n_hosts + number of the source host - 1] */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} flow_bytes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, DCGYM_DROP_REASONS);
    __type(key, __u32);
    __type(value, __u64);
} drops SEC(".maps");

/* A decision: an egress ifindex and the receiver's number, or the reason why there is none. */
struct decision {
    __u32 ifindex;
    __u32 reason;
    __u32 host;
};

static __always_inline int drop(__u32 reason) {
    __u64 *count = bpf_map_lookup_elem(&drops, &reason);

    if (count)
        (*count)++;
    return TC_ACT_SHOT;
}

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
    return read_ports((void *)ip + ip->ihl * 4, end, key);
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
    return read_ports(ip + 1, end, key);
}

/* Returns 0 or minus a drop reason. */
static __always_inline int parse(struct ethhdr *eth, void *end, struct flow_key *key) {
    switch (eth->h_proto) {
    case bpf_htons(ETH_P_IP):
        return parse_ipv4((void *)(eth + 1), end, key);
    case bpf_htons(ETH_P_IPV6):
        return parse_ipv6((void *)(eth + 1), end, key);
    case bpf_htons(ETH_P_ARP): /* unicast only: broadcast is no fabric MAC */
        return 0;
    default:
        return -DCGYM_DROP_PROTOCOL;
    }
}

static __always_inline __u32 host_number(const __u8 *mac) {
    __u32 prefix = mac[0] << 16 | mac[1] << 8 | mac[2];

    if (prefix != DCGYM_MAC_PREFIX)
        return 0;
    return mac[3] << 16 | mac[4] << 8 | mac[5];
}

/* Number of the host that a frame is for, 0 if it is for none. */
static __always_inline __u32 receiver(struct ethhdr *eth, void *end) {
    __u32 number = host_number(eth->h_dest), address;
    struct iphdr *ip = (void *)(eth + 1);

    if (number != DCGYM_GATEWAY_NUMBER)
        return number;
    if (eth->h_proto != bpf_htons(ETH_P_IP) || (void *)(ip + 1) > end)
        return 0;
    address = bpf_ntohl(ip->daddr);
    return address >> 24 == DCGYM_IP_NETWORK ? address & 0xffffff : 0;
}

static __always_inline struct decision refuse(__u32 reason) {
    return (struct decision){.reason = reason};
}

static __always_inline struct decision next_hop(__u32 switch_id, __u32 host, struct flow_key *key) {
    __u32 index = switch_id * constants.n_hosts + host - 1, id;
    __u32 *route = bpf_map_lookup_elem(&routes, &index);
    struct dcgym_group *group;
    struct draw draw;

    if (!route || !*route)
        return refuse(DCGYM_DROP_NO_ROUTE);
    id = *route - 1;
    group = bpf_map_lookup_elem(&groups, &id);
    if (!group)
        return refuse(DCGYM_DROP_NO_ROUTE);
    if (!draw_by_hash(group, key, &draw))
        return refuse(DCGYM_DROP_GROUP_BUSY);
    if (constants.flow_entries && draw.size > 1)
        draw.ifindex = pinned_member(group, switch_id, key, &draw);
    return (struct decision){draw.ifindex, DCGYM_DROP_NO_ROUTE};
}

/* Headers of offloaded or spliced packets may lie outside the linear part. */
static __always_inline void make_linear(struct __sk_buff *skb) {
    const __u32 most = ETH_HLEN + 60 + TCP_FLAGS_OFFSET + 1;
    __u32 wanted = skb->len < most ? skb->len : most;

    if ((void *)(long)skb->data + wanted > (void *)(long)skb->data_end)
        bpf_skb_pull_data(skb, wanted);
}

static __always_inline bool is_lost(__u32 probability) {
    return probability && bpf_get_prandom_u32() <= probability;
}

static __always_inline struct decision decide(struct __sk_buff *skb) {
    __u32 ifindex = skb->ifindex, host;
    struct dcgym_port_config *port = bpf_map_lookup_elem(&ports, &ifindex);
    struct decision decision;
    struct flow_key key = {};
    struct ethhdr *eth;
    void *end;
    int err;

    if (!port || !port->in_use)
        return refuse(DCGYM_DROP_UNKNOWN_PORT);
    if (is_lost(port->loss_in))
        return refuse(DCGYM_DROP_LOSS);
    make_linear(skb);
    eth = (void *)(long)skb->data;
    end = (void *)(long)skb->data_end;
    if ((void *)(eth + 1) > end)
        return refuse(DCGYM_DROP_TRUNCATED);
    host = receiver(eth, end);
    if (!host || host > constants.n_hosts)
        return refuse(DCGYM_DROP_UNKNOWN_MAC);
    err = parse(eth, end, &key);
    if (err)
        return refuse(-err);
    decision = next_hop(port->switch_id, host, &key);
    decision.host = host;
    return decision;
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

/*
 * A veth pair keeps the sender's claim on a packet (Linux 4.19 and later), so TCP small queues and
 * UDP's send buffer would count what waits in the switch and no queue could build. A real wire
 * frees the sender's buffer: a clone has no owner. Only the first hop pays.
 */
static __always_inline int send(struct __sk_buff *skb, __u32 ifindex) {
    if (!skb->sk)
        return bpf_redirect(ifindex, 0);
    bpf_clone_redirect(skb, ifindex, 0);
    return TC_ACT_STOLEN;
}

SEC("tc")
int fabric_forward(struct __sk_buff *skb) {
    struct decision decision = decide(skb);

    if (!decision.ifindex)
        return drop(decision.reason);
    rewrite(skb, decision.host);
    return send(skb, decision.ifindex);
}

/*
 * The same decision for path tracing and tests: returns the ifindex or 0. The packet is neither
 * changed nor sent; the flow table remembers it as it would a forwarded one.
 */
SEC("tc")
int fabric_select(struct __sk_buff *skb) {
    return decide(skb).ifindex;
}

static __always_inline __u64 backlog_bytes(struct __sk_buff *skb) {
    struct sk_buff *kernel_skb = bpf_cast_to_kern_ctx(skb);

    return kernel_skb->dev->qdisc->qstats.backlog;
}

/* Several CPUs enqueue and a reader resets, so this is a maximum by compare-and-swap. */
static __always_inline void raise_peak(__u64 *peak, __u64 bytes) {
    for (int i = 0; i < PEAK_RETRIES; i++) {
        __u64 seen = *(volatile __u64 *)peak;

        if (seen >= bytes || __sync_val_compare_and_swap(peak, seen, bytes) == seen)
            return;
    }
}

static __always_inline __u32 log2_floor(__u64 value) {
    __u32 result = 0;

#pragma unroll
    for (int shift = 16; shift; shift >>= 1) {
        if (value >> shift) {
            value >>= shift;
            result += shift;
        }
    }
    return result;
}

static __always_inline __u32 bucket(__u64 backlog) {
    __u32 log2 = log2_floor(backlog);

    if (!backlog)
        return 0;
    if (log2 <= 8)
        return 1;
    return log2 - 7 < DCGYM_HISTOGRAM_BUCKETS ? log2 - 7 : DCGYM_HISTOGRAM_BUCKETS - 1;
}

/* Step: mark_probability as soon as this packet takes the queue beyond the threshold. */
static __always_inline bool exceeds_step(const struct dcgym_port_config *port, __u64 after) {
    if (after <= port->mark_min_bytes)
        return false;
    if (port->mark_probability >= DCGYM_PROBABILITY_ONE)
        return true;
    return (bpf_get_prandom_u32() & (DCGYM_PROBABILITY_ONE - 1)) < port->mark_probability;
}

/* base^exponent; both sides have 32 fractional bits, and base is below 1. */
static __always_inline __u64 power(__u64 base, __u32 exponent) {
    __u64 result = RED_ONE;

    for (int i = 0; i < 32; i++) {
        if (exponent & 1)
            result = (result * base) >> 32;
        base = (base * base) >> 32;
        exponent >>= 1;
    }
    return result;
}

/* The average falls in an idle time as if as many packets as it had room for had met no queue. */
static __always_inline void decay(const struct dcgym_port_config *port, struct dcgym_red *red,
                                  __u64 now_ns) {
    __u64 packets, kept;

    if (now_ns <= red->busy_until_ns || !port->mark_packet_ns)
        return;
    packets = (now_ns - red->busy_until_ns) / port->mark_packet_ns;
    kept = (__u64)(DCGYM_PROBABILITY_ONE - port->mark_weight) << 16;
    kept = power(kept, packets > MOST_IDLE_PACKETS ? MOST_IDLE_PACKETS : packets);
    red->average = ((red->average >> 16) * kept) >> 16;
}

static __always_inline void average(const struct dcgym_port_config *port, struct dcgym_red *red,
                                    __u64 before, __u64 bytes) {
    __u64 now_ns = bpf_ktime_get_ns();
    __s64 change = (__s64)(before << DCGYM_RED_FRACTION_BITS) - (__s64)red->average;

    if (before || port->mark_weight == DCGYM_PROBABILITY_ONE)
        red->average += (change * port->mark_weight) >> 16;
    else
        decay(port, red, now_ns);
    red->busy_until_ns = now_ns + (before + bytes) * port->mark_packet_ns / RED_PACKET_BYTES;
}

/*
 * RED (Floyd and Jacobson 1993): the average of the queues that packets met decides, and marks are
 * spread evenly: p_b grows from 0 at min to mark_probability at max, and the packet that comes
 * `unmarked` packets after the last mark is marked with p_b / (1 - unmarked * p_b). CPUs that meet
 * at one port may lose an update of the average to each other, which the next packet makes good.
 */
static __always_inline bool exceeds_red(const struct dcgym_port_config *port, __u32 port_id,
                                        __u64 before, __u64 bytes) {
    struct dcgym_red *red = bpf_map_lookup_elem(&red_states, &port_id);
    __u64 queue, base, spent;

    if (!red)
        return false;
    average(port, red, before, bytes);
    queue = red->average >> DCGYM_RED_FRACTION_BITS;
    if (queue < port->mark_min_bytes) {
        red->unmarked = 0;
        return false;
    }
    base = ((__u64)port->mark_probability << 16) * (queue - port->mark_min_bytes) /
           (port->mark_max_bytes - port->mark_min_bytes);
    spent = red->unmarked * base;
    if (queue < port->mark_max_bytes && spent + base < RED_ONE &&
        bpf_get_prandom_u32() * (RED_ONE - spent) >= base << 32) {
        red->unmarked++;
        return false;
    }
    red->unmarked = 0;
    return true;
}

static __always_inline bool should_mark(const struct dcgym_port_config *port, __u32 port_id,
                                        __u64 before, __u64 bytes) {
    if (!port->mark_probability)
        return false;
    if (port->mark_max_bytes == port->mark_min_bytes)
        return exceeds_step(port, before + bytes);
    return exceeds_red(port, port_id, before, bytes);
}

static __always_inline void count_flow(struct __sk_buff *skb, __u32 port_id, __u64 bytes) {
    struct ethhdr *eth = (void *)(long)skb->data;
    __u32 host, index;
    __u64 *count;

    if ((void *)(eth + 1) > (void *)(long)skb->data_end)
        return;
    host = host_number(eth->h_source);
    if (!host || host > constants.n_hosts)
        return;
    index = port_id * constants.n_hosts + host - 1;
    count = bpf_map_lookup_elem(&flow_bytes, &index);
    if (count)
        __sync_fetch_and_add(count, bytes);
}

SEC("tc")
int fabric_egress(struct __sk_buff *skb) {
    __u32 ifindex = skb->ifindex, port_id, slot;
    struct dcgym_port_config *port = bpf_map_lookup_elem(&ports, &ifindex);
    __u64 segments = skb->gso_segs ? skb->gso_segs : 1;
    __u64 bytes = skb->wire_len, before, after;
    struct dcgym_port_counters *count;

    if (!port || !port->in_use)
        return TC_ACT_UNSPEC;
    if (is_lost(port->loss_out))
        return drop(DCGYM_DROP_LOSS);
    port_id = port->port_id;
    count = bpf_map_lookup_elem(&counters, &port_id);
    if (!count)
        return TC_ACT_UNSPEC;
    before = backlog_bytes(skb);
    after = before + bytes;
    __sync_fetch_and_add(&count->tx_packets, segments);
    __sync_fetch_and_add(&count->tx_bytes, bytes);
    slot = bucket(before);
    if (slot < DCGYM_HISTOGRAM_BUCKETS)
        __sync_fetch_and_add(&count->histogram[slot], 1);
    /* A packet that does not fit is dropped by the queue: it neither raises the peak nor counts. */
    if (port->queue_bytes && after > port->queue_bytes) {
        raise_peak(&count->peak_bytes, before);
        return TC_ACT_UNSPEC;
    }
    raise_peak(&count->peak_bytes, after);
    if (constants.count_flows)
        count_flow(skb, port_id, bytes);
    if (should_mark(port, port_id, before, bytes) && bpf_skb_ecn_set_ce(skb))
        __sync_fetch_and_add(&count->marks, segments);
    return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
