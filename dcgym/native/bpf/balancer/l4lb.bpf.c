// SPDX-License-Identifier: GPL-2.0-only
/* Layer-4 balancer: a VIP's packets go to a server, and the server answers the client. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "common/barrier.h"
#include "l4lb.h"
#include "l4lb_packet.h"
#include "l4lb_maps.h"
#include "l4lb_pool.h"
#include "l4lb_devices.h"
#include "l4lb_device_reports.h"
#include "l4lb_told.h"
#include "l4lb_table.h"
#include "l4lb_snapshot.h"
#include "l4lb_route.h"
#include "l4lb_report.h"
#include "l4lb_icmp.h"
#include "l4lb_skb.h"
#include "l4lb_xdp.h"

#define MAC_SHIFT 16 /* of a MAC read as a number of 64 bits in network order */

/* What a bridge floods is not for us; forwarded too, it would come twice. */
static __always_inline bool is_addressed(const struct frame *frame) {
    const struct ethhdr *eth = frame->data;
    __u64 mac = 0;

    if ((const void *)(eth + 1) > frame->end)
        return false;
    __builtin_memcpy(&mac, eth->h_dest, sizeof(eth->h_dest));
    return mac == control.source_mac ||
           bpf_be64_to_cpu(mac) - bpf_be64_to_cpu(control.mac) <= control.further_macs << MAC_SHIFT;
}

static __always_inline bool takes_cookies(__u32 vip) {
    const struct dcgym_lb_pool *in_force;

    if (constants.consistency != DCGYM_LB_BY_RULE)
        return constants.consistency == DCGYM_LB_BY_COOKIE;
    in_force = adopt_pool(vip);
    return in_force && dcgym_is_charon(in_force->rule);
}

static __always_inline void read_cookie(const struct frame *frame, struct arrival *arrival) {
    struct timestamp stamp;

    arrival->cookie = DCGYM_LB_NO_COOKIE;
    if (!arrival->tcp_bytes || !takes_cookies(arrival->vip))
        return;
    stamp = read_timestamp(frame, arrival->l4, arrival->tcp_bytes);
    arrival->stamped = stamp.at;
    if (stamp.at && !arrival->syn)
        arrival->cookie = cookie_of(stamp.echo);
}

/*
 * FOR_BALANCER with a decision, FOR_CLIENT with a reply, FOR_SENDER, FOR_STACK, FOR_NOBODY, or
 * minus a drop's counter.
 */
static __always_inline int balance(const struct frame *frame, struct arrival *arrival,
                                   struct decision *decision, struct reply *reply) {
    struct dcgym_lb_state *state;
    int found;
    __u32 *vip;

    if (!is_addressed(frame))
        return FOR_STACK;
    found = parse(frame, arrival);
    if (found == FOR_ICMP)
        found = parse_icmp(frame, arrival);
    if (constants.devices && found == FOR_STACK && is_device_report(frame))
        return take_device_report(frame);
    if (found == FOR_STACK && is_tagged(frame))
        count(DCGYM_LB_VLAN);
    if (found != FOR_BALANCER)
        return found;
    if (is_message(arrival))
        return take_message(frame, arrival);
    if (arrival->returns)
        return take_report(frame, arrival, reply) ? FOR_CLIENT
                                                  : refuse_ours(arrival, DCGYM_LB_DROP_MALFORMED);
    vip = bpf_map_lookup_elem(&vips, &arrival->to);
    if (!vip)
        return refuse_ours(arrival, DCGYM_LB_DROP_PORT);
    arrival->vip = *vip;
    read_cookie(frame, arrival);
    arrival->digest = digest(arrival, constants.seed);
    arrival->now_ns = bpf_ktime_get_ns();
    *decision = arrival->quoted ? follow_quoted(arrival) : route(arrival);
    if (!decision->target)
        return -(int)decision->reason;
    if (arrival->quoted) {
        count(DCGYM_LB_ICMP_ERRORS);
        return FOR_BALANCER;
    }
    state = state_of(arrival->vip);
    if (state)
        __sync_fetch_and_add(&state->packets[decision->server & (DCGYM_LB_SERVERS - 1)], 1);
    if (constants.devices)
        count_device_packet(arrival->vip, decision->server, decision->device);
    return FOR_BALANCER;
}

/* The tunnel to a server or its device, in the packet's own family. */
static __always_inline bool tunnel_to(const struct arrival *arrival,
                                      const struct decision *decision, struct tunnel *tunnel) {
    __u32 index = target_index(arrival->vip, decision->server, decision->device);
    const struct dcgym_lb_endpoint *to = bpf_map_lookup_elem(&tunnels, &index);

    if (!to)
        return false;
    tunnel->version = arrival->to.version;
    tunnel->from.ipv4 = control.tunnel_from.ipv4;
    for (int i = 0; i < DCGYM_LB_ADDRESS_WORDS; i++)
        tunnel->from.ipv6[i] = control.tunnel_from.ipv6[i];
    tunnel->to = *to;
    return has_ends(tunnel);
}

static __always_inline bool address(void *data, const void *end, __u64 to) {
    struct ethhdr *eth = data;
    __u64 from = control.source_mac;

    if ((const void *)(eth + 1) > end)
        return false;
    __builtin_memcpy(eth->h_dest, &to, sizeof(eth->h_dest));
    __builtin_memcpy(eth->h_source, &from, sizeof(eth->h_source));
    return true;
}

/* SYN-ACKs of routed servers come by tunnel. */
static __always_inline bool is_tunnelled(const struct frame *frame, struct tunnel *tunnel) {
    if (constants.delivery != DCGYM_LB_IPIP || frame->tagged || !is_addressed(frame))
        return false;
    *tunnel = read_outer(frame);
    return ends_at(tunnel, &control.tunnel_from);
}

static __always_inline int skb_send(struct __sk_buff *skb, __u64 to) {
    if (!address((void *)(long)skb->data, (void *)(long)skb->data_end, to))
        return TC_ACT_SHOT;
    return bpf_redirect(skb->ifindex, 0);
}

static __always_inline int skb_reply(struct __sk_buff *skb, const struct reply *reply) {
    bpf_l4_csum_replace(skb, reply->check_at, 0, reply->difference, 0);
    return reply->next_hop ? skb_send(skb, reply->next_hop) : TC_ACT_OK;
}

static __always_inline int skb_deliver(struct __sk_buff *skb, const struct arrival *arrival,
                                       const struct decision *decision) {
    struct tunnel tunnel = {};
    int err;

    if (constants.delivery == DCGYM_LB_IPIP) {
        err = tunnel_to(arrival, decision, &tunnel) ? skb_encapsulate(skb, &tunnel)
                                                    : DCGYM_LB_DROP_NO_TUNNEL;
        if (err) {
            count(err);
            return TC_ACT_SHOT;
        }
    }
    return skb_send(skb, decision->target);
}

static __always_inline struct frame arrived(struct __sk_buff *skb) {
    struct frame frame = skb_frame(skb);
    struct tunnel tunnel;

    if (!is_tunnelled(&frame, &tunnel))
        return frame;
    skb_decapsulate(skb, &tunnel); /* if it fails, the packet is still none of ours */
    return skb_frame(skb);
}

SEC("tc")
int l4lb_balance(struct __sk_buff *skb) {
    struct frame frame = arrived(skb);
    struct decision decision = {};
    struct arrival arrival = {};
    struct reply reply = {};
    __u64 to;
    int found = balance(&frame, &arrival, &decision, &reply);

    if (found == FOR_BALANCER)
        return skb_deliver(skb, &arrival, &decision);
    if (found == FOR_CLIENT)
        return skb_reply(skb, &reply);
    if (found == FOR_SENDER) {
        to = answer_echo(&frame, &arrival);
        return to ? skb_send(skb, to) : TC_ACT_SHOT;
    }
    if (found == FOR_STACK)
        return TC_ACT_OK;
    if (found == FOR_NOBODY)
        return TC_ACT_SHOT;
    count(-found);
    return TC_ACT_SHOT;
}

static __always_inline int xdp_send(struct xdp_md *xdp, __u64 to) {
    struct frame frame = xdp_frame(xdp);

    return address(frame.data, frame.end, to) ? XDP_TX : XDP_DROP;
}

static __always_inline int xdp_deliver(struct xdp_md *xdp, const struct arrival *arrival,
                                       const struct decision *decision) {
    struct tunnel tunnel = {};
    int err;

    if (constants.delivery == DCGYM_LB_IPIP) {
        err = tunnel_to(arrival, decision, &tunnel) ? xdp_encapsulate(xdp, &tunnel)
                                                    : DCGYM_LB_DROP_NO_TUNNEL;
        if (err) {
            count(err);
            return XDP_DROP;
        }
    }
    return xdp_send(xdp, decision->target);
}

static __always_inline struct frame xdp_arrived(struct xdp_md *xdp) {
    struct frame frame = xdp_frame(xdp);
    struct tunnel tunnel;

    if (!is_tunnelled(&frame, &tunnel))
        return frame;
    move_head(xdp, tunnel_bytes(&tunnel));
    return xdp_frame(xdp);
}

SEC("xdp")
int l4lb_xdp(struct xdp_md *xdp) {
    struct frame frame = xdp_arrived(xdp);
    struct decision decision = {};
    struct arrival arrival = {};
    struct reply reply = {};
    __u64 to;
    int found;

    if (is_probe(&frame))
        return return_probe(&frame);
    found = balance(&frame, &arrival, &decision, &reply);
    if (found == FOR_BALANCER)
        return xdp_deliver(xdp, &arrival, &decision);
    if (found == FOR_STACK)
        return XDP_PASS;
    if (found == FOR_NOBODY)
        return XDP_DROP;
    if (found == FOR_CLIENT) {
        xdp_fix_checksum(xdp, reply.check_at, reply.difference);
        return reply.next_hop ? xdp_send(xdp, reply.next_hop) : XDP_PASS;
    }
    if (found == FOR_SENDER) {
        to = answer_echo(&frame, &arrival);
        return to ? xdp_send(xdp, to) : XDP_DROP;
    }
    count(-found);
    return XDP_DROP;
}

/* For the other end of a veth pair, which takes frames only while it has a program itself. */
SEC("xdp")
int l4lb_pass(struct xdp_md *xdp) {
    return XDP_PASS;
}

/*
 * The decision alone, for measurements: the packet is neither changed nor sent, but its flow is
 * entered and counted. Returns the server's number or DCGYM_NO_SERVER.
 */
SEC("tc")
int l4lb_select(struct __sk_buff *skb) {
    struct frame frame = skb_frame(skb);
    struct decision decision = {};
    struct arrival arrival = {};
    struct reply reply = {};

    if (balance(&frame, &arrival, &decision, &reply) != FOR_BALANCER)
        return DCGYM_NO_SERVER;
    return decision.server;
}

/* Run once by the loader. The timer ends when no process holds the maps any more. */
SEC("tc")
int l4lb_start(struct __sk_buff *skb) {
    __u32 zero = 0;
    struct ticker *ticker = bpf_map_lookup_elem(&tickers, &zero);

    if (!ticker || bpf_timer_init(&ticker->timer, &tickers, CLOCK_MONOTONIC))
        return -1;
    bpf_timer_set_callback(&ticker->timer, tick);
    return bpf_timer_start(&ticker->timer, 0, 0);
}

char _license[] SEC("license") = "GPL";
