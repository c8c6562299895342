// SPDX-License-Identifier: GPL-2.0-only
/* Switch data plane: ingress forwards by host number, egress marks and records the backlog. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "backlog.h"
#include "fabric.h"
#include "fabric_maps.h"
#include "fabric_packet.h"
#include "flow.h"
#include "marking.h"
#include "route.h"
#include "answer.h"
#include "mux.h"

static __always_inline bool is_lost(__u32 probability) {
    return probability && bpf_get_prandom_u32() <= probability;
}

/* `dip` is set for a packet of a VIP that this switch is the mux of: who gets it, by tunnel. */
static __always_inline struct decision decide(struct __sk_buff *skb, bool is_mux, __u32 *dip) {
    __u32 ifindex = skb->ifindex, host;
    struct dcgym_port_config *port = bpf_map_lookup_elem(&ports, &ifindex);
    struct vip_entry vip = {};
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
    if (skb->vlan_present)
        return refuse(DCGYM_DROP_VLAN);
    if (is_mux)
        vip = match_vip(port, eth, end);
    host = vip.number ? vip.number : receiver(eth, end);
    if (!vip.n_entries && (!host || host > constants.n_hosts))
        return refuse(is_tagged(eth) ? DCGYM_DROP_VLAN : DCGYM_DROP_UNKNOWN_MAC);
    err = parse(eth, end, &key);
    if (err)
        return refuse(-err);
    if (vip.n_entries) {
        host = *dip = find_dip(port->switch_id, &vip, &key);
        if (!host || host > constants.n_hosts)
            return refuse(DCGYM_DROP_NO_ROUTE);
    }
    decision = next_hop(port->switch_id, host, &key);
    decision.host = host;
    return decision;
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

/* Drops a packet; its sender is told of it where that can help. */
static __always_inline int refuse_packet(struct __sk_buff *skb, __u32 reason, __u32 mtu) {
    __u32 ifindex = 0;

    drop(reason);
    if (reason == DCGYM_DROP_TTL_EXPIRED || reason == DCGYM_DROP_TOO_BIG)
        ifindex = answer(skb, mtu);
    return ifindex ? send(skb, ifindex) : TC_ACT_SHOT;
}

static __always_inline int forward(struct __sk_buff *skb, bool is_mux) {
    __u32 mtu, dip = 0, ifindex = skb->ifindex;
    struct decision decision = decide(skb, is_mux, &dip);
    const __u32 more = dip ? sizeof(struct iphdr) : 0;
    struct dcgym_port_config *port;

    if (!decision.ifindex)
        return refuse_packet(skb, decision.reason, 0);
    mtu = exceeded_mtu(skb, decision.ifindex, more);
    if (mtu)
        return refuse_packet(skb, DCGYM_DROP_TOO_BIG, mtu - more);
    if (dip) {
        port = bpf_map_lookup_elem(&ports, &ifindex);
        if (!port || !encapsulate(skb, port->switch_id, dip))
            return drop(DCGYM_DROP_TOO_BIG);
    }
    rewrite(skb, decision.host);
    return send(skb, decision.ifindex);
}

SEC("tc")
int fabric_forward(struct __sk_buff *skb) {
    return forward(skb, false);
}

/* The same of switches that are muxes too; others do not pay for it. */
SEC("tc")
int hmux_forward(struct __sk_buff *skb) {
    return forward(skb, true);
}

/*
 * The same decision for path tracing and tests: returns the ifindex or 0. The packet is neither
 * changed nor sent; the flow table remembers it as it would a forwarded one.
 */
SEC("tc")
int fabric_select(struct __sk_buff *skb) {
    __u32 dip = 0;

    return decide(skb, false, &dip).ifindex;
}

/* That of a mux: the number of the host, or of the next mux, that the packet is sent to, or 0. */
SEC("tc")
int hmux_select(struct __sk_buff *skb) {
    __u32 dip = 0;
    struct decision decision = decide(skb, true, &dip);

    return decision.ifindex ? decision.host : 0;
}

/* Run once for each interface of the rule drill by BPF_PROG_TEST_RUN, which looks it up. */
SEC("tc")
int fabric_learn(struct __sk_buff *skb) {
    struct sk_buff *kernel_skb = bpf_cast_to_kern_ctx(skb);
    __u32 ifindex = skb->ifindex;
    __u64 *device = bpf_map_lookup_elem(&devices, &ifindex);

    if (!device)
        return TC_ACT_SHOT;
    *device = (__u64)kernel_skb->dev;
    return TC_ACT_OK;
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

/* A TAP hands GSO packets over without their number of segments (tun_get_user). */
static __always_inline __u64 count_segments(struct __sk_buff *skb) {
    __u32 headers;

    if (skb->gso_segs || !skb->gso_size)
        return skb->gso_segs ? skb->gso_segs : 1;
    headers = header_bytes(skb) + ETH_HLEN;
    return ((__u64)skb->len - headers + skb->gso_size - 1) / skb->gso_size;
}

SEC("tc")
int fabric_egress(struct __sk_buff *skb) {
    __u32 ifindex = skb->ifindex, port_id, slot;
    struct dcgym_port_config *port = bpf_map_lookup_elem(&ports, &ifindex);
    __u64 segments = count_segments(skb);
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
