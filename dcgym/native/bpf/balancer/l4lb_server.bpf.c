// SPDX-License-Identifier: GPL-2.0-only
/*
 * The balancer's part at a server: it takes packets out of tunnels, puts the server's number into
 * the timestamps that clients echo, and sends SYN-ACKs back through the balancer with the load.
 */
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

#include "l4lb.h"
#include "l4lb_packet.h"
#include "l4lb_skb.h"
#include "l4lb_speed.h"

#define SYNS 65536 /* handshakes under way whose balancer is known */
#define NS_PER_MS 1000000
#define TCP_CHECK offsetof(struct tcphdr, check)

const volatile struct dcgym_lb_server_constants constants = {};

/* Rows by server number; the loader may put a map of the caller's in its place. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, DCGYM_LB_SERVERS);
    __type(key, __u32);
    __type(value, struct dcgym_lb_load);
} loads SEC(".maps");

struct client {
    struct dcgym_lb_vip_key address;
    __u32 vip_port;
};

/* Where a SYN came from. */
struct origin {
    __u8 mac[6];
    __u16 version; /* of its tunnel, 0: none */
    struct dcgym_lb_endpoint balancer;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, SYNS);
    __type(key, struct client);
    __type(value, struct origin);
} origins SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct departures);
} departures SEC(".maps");

static __always_inline const struct dcgym_lb_load *own_load(void) {
    __u32 server = constants.server;

    return bpf_map_lookup_elem(&loads, &server);
}

static __always_inline __u32 busy(const struct dcgym_lb_load *load) {
    return load ? *(const volatile __u32 *)&load->busy : 0;
}

/* 0: the server tells its flows; else one more than the factor of 2^-16 by which it multiplies
 * them.
 */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} claims SEC(".maps");

static __always_inline __u32 claimed(__u32 flows) {
    __u32 zero = 0;
    const __u64 *claim = bpf_map_lookup_elem(&claims, &zero);
    __u64 told = claim && *claim ? flows * (*claim - 1) >> 16 : flows;

    return told < 0xffff ? told : 0xffff;
}

static __always_inline struct departures *departed(void) {
    __u32 zero = 0;

    return bpf_map_lookup_elem(&departures, &zero);
}

static __always_inline bool is_balanced(const struct dcgym_lb_vip_key *key) {
    return bpf_map_lookup_elem(&vips, key);
}

static __always_inline void remember_origin(const struct frame *frame,
                                            const struct arrival *arrival,
                                            const struct tunnel *tunnel) {
    const struct client client = {sender(arrival), arrival->to.port};
    const struct ethhdr *eth = frame->data;
    struct origin origin = {.version = tunnel->version, .balancer = tunnel->from};

    if ((const void *)(eth + 1) > frame->end)
        return;
    __builtin_memcpy(origin.mac, eth->h_source, sizeof(origin.mac));
    bpf_map_update_elem(&origins, &client, &origin, BPF_ANY);
}

/* Replaces four bytes that count in the TCP checksum. */
static __always_inline void replace(struct __sk_buff *skb, __u32 tcp_at, __u32 at, __u32 old,
                                    __u32 new) {
    bpf_skb_store_bytes(skb, tcp_at + at, &new, sizeof(new), 0);
    /* At an odd offset the bytes of each pair change places. */
    if (at & 1) {
        old = old << 8 | old >> 24;
        new = new << 8 | new >> 24;
    }
    bpf_l4_csum_replace(skb, tcp_at + TCP_CHECK, old, new, sizeof(new));
}

static __always_inline __u32 marked(__u32 value) {
    __u32 clock = (bpf_ntohl(value) - constants.epoch_ms) & DCGYM_LB_CLOCK_MASK;

    return bpf_htonl(constants.server << DCGYM_LB_CLOCK_BITS | clock);
}

/* The value that was marked: of those with its low bits the last one that is not in the future. */
static __always_inline __u32 unmarked(__u32 echo) {
    __u32 latest = bpf_ktime_get_ns() / NS_PER_MS + DCGYM_LB_CLOCK_SLACK_MS;
    __u32 clock = bpf_ntohl(echo) & DCGYM_LB_CLOCK_MASK;

    return bpf_htonl(latest - ((latest - constants.epoch_ms - clock) & DCGYM_LB_CLOCK_MASK));
}

/* An echo of a zero is none: the option is there, but there was nothing to echo. */
static __always_inline void restore_echo(struct __sk_buff *skb, const struct frame *frame,
                                         const struct arrival *arrival) {
    const __u32 tcp_at = arrival->l4 - frame->data;
    struct timestamp stamp = read_timestamp(frame, arrival->l4, arrival->tcp_bytes);

    if (stamp.at && stamp.echo)
        replace(skb, tcp_at, stamp.at + TIMESTAMP_ECHO, stamp.echo, unmarked(stamp.echo));
}

SEC("tc")
int server_ingress(struct __sk_buff *skb) {
    struct frame frame = skb_frame(skb);
    struct tunnel tunnel = read_outer(&frame);
    struct arrival arrival = {};

    if (tunnel.version && !frame.tagged && ends_at(&tunnel, &constants.tunnel_to)) {
        skb_decapsulate(skb, &tunnel);
        frame = skb_frame(skb);
    } else {
        tunnel.version = 0;
    }
    if (parse(&frame, &arrival) != FOR_BALANCER || !arrival.tcp_bytes || !is_balanced(&arrival.to))
        return TC_ACT_OK;
    if (arrival.syn) {
        note_arrival(departed(), busy(own_load()), bpf_ktime_get_ns());
        remember_origin(&frame, &arrival, &tunnel);
    } else if (constants.cookies) {
        restore_echo(skb, &frame, &arrival);
    }
    return TC_ACT_OK;
}

/* A segment's length changed: in the IP header, and in what the TCP checksum takes from that. */
static __always_inline int lengthen(struct __sk_buff *skb, const struct arrival *arrival,
                                    __u32 tcp_at, __u32 more) {
    const bool ipv4 = arrival->to.version == 4;
    const __u32 at =
        ETH_HLEN + (ipv4 ? offsetof(struct iphdr, tot_len) : offsetof(struct ipv6hdr, payload_len));
    __u16 old, new;

    if (bpf_skb_load_bytes(skb, at, &old, sizeof(old)))
        return -1;
    new = bpf_htons(bpf_ntohs(old) + more);
    bpf_skb_store_bytes(skb, at, &new, sizeof(new), 0);
    if (ipv4)
        bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old, new, sizeof(new));
    return bpf_l4_csum_replace(skb, tcp_at + TCP_CHECK, old, new, BPF_F_PSEUDO_HDR | sizeof(new));
}

/* Appends an option to a segment without data, as SYN-ACKs are. */
static __always_inline int append_option(struct __sk_buff *skb, const struct arrival *arrival,
                                         __u32 tcp_at, const struct dcgym_lb_report *report) {
    const __u32 at = tcp_at + TCP_FLAGS_OFFSET - 1;
    __u32 end = tcp_at + arrival->tcp_bytes;
    __u16 old, new;

    if (end != skb->len || arrival->tcp_bytes + sizeof(*report) > MOST_TCP_BYTES ||
        bpf_skb_change_tail(skb, end + sizeof(*report), 0) ||
        bpf_skb_load_bytes(skb, at, &old, sizeof(old)))
        return -1;
    new = bpf_htons(bpf_ntohs(old) + (sizeof(*report) / 4 << 12));
    bpf_skb_store_bytes(skb, end, report, sizeof(*report), 0);
    bpf_skb_store_bytes(skb, at, &new, sizeof(new), 0);
    bpf_l4_csum_replace(skb, tcp_at + TCP_CHECK, old, new, sizeof(new));
    bpf_l4_csum_replace(skb, tcp_at + TCP_CHECK, 0,
                        bpf_csum_diff(NULL, 0, (void *)report, sizeof(*report), 0), 0);
    return lengthen(skb, arrival, tcp_at, sizeof(*report));
}

/* What a client may send at once: what comes to it through a tunnel has to fit the way there. */
static __always_inline void clamp_mss(struct __sk_buff *skb, const struct frame *frame,
                                      const struct arrival *arrival, __u32 less) {
    const __u32 tcp_at = arrival->l4 - frame->data;
    const __u32 at = option_at(frame, arrival->l4, arrival->tcp_bytes, TCP_OPTION_MSS, MSS_BYTES);
    __u32 old, new;

    if (!at || bpf_skb_load_bytes(skb, tcp_at + at, &old, sizeof(old)) ||
        (bpf_ntohl(old) & 0xffff) <= less)
        return;
    new = bpf_htonl(bpf_ntohl(old) - less);
    replace(skb, tcp_at, at, old, new);
}

/* Sends a SYN-ACK to the balancer that its SYN came from. Its next hop there is where that came. */
static __always_inline void send_back(struct __sk_buff *skb, const struct arrival *arrival,
                                      __u32 tcp_at, const struct origin *origin) {
    const struct dcgym_lb_load *load = own_load();
    const __u32 flows = busy(load) + 1; /* the new one, which nobody counts yet */
    struct dcgym_lb_report report = {
        .kind = DCGYM_LB_REPORT_KIND,
        .bytes = sizeof(report),
        .id = bpf_htons(DCGYM_LB_REPORT_ID),
        .flows = bpf_htons(claimed(flows)),
        .speed = bpf_htonl(speed_of(load, flows, departed())),
        .service = bpf_htonl(service_of(load, departed())),
    };
    struct tunnel tunnel = {.to = origin->balancer, .version = origin->version};

    if (!tunnel.version && bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_dest), report.next_hop,
                                              sizeof(report.next_hop)))
        return;
    if (append_option(skb, arrival, tcp_at, &report))
        return;
    if (tunnel.version) {
        tunnel.from.ipv4 = constants.tunnel_to.ipv4;
        for (int i = 0; i < DCGYM_LB_ADDRESS_WORDS; i++)
            tunnel.from.ipv6[i] = constants.tunnel_to.ipv6[i];
        if (skb_encapsulate(skb, &tunnel))
            return;
    }
    bpf_skb_store_bytes(skb, offsetof(struct ethhdr, h_dest), origin->mac, sizeof(origin->mac), 0);
}

static __always_inline void answer_syn(struct __sk_buff *skb, bool stamped) {
    struct frame frame = skb_frame(skb);
    struct arrival arrival = {};
    struct origin *origin;
    struct client client;
    __u32 tcp_at;

    if (parse(&frame, &arrival) != FOR_BALANCER)
        return;
    client = (struct client){arrival.to, arrival.from_port};
    origin = bpf_map_lookup_elem(&origins, &client);
    if (!origin)
        return;
    tcp_at = arrival.l4 - frame.data;
    if (origin->version)
        clamp_mss(skb, &frame, &arrival,
                  origin->version == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
    /* The balancer learns from the timestamp whose load it is. */
    if (constants.reports && stamped)
        send_back(skb, &arrival, tcp_at, origin);
}

/* A RST may as well refuse a connection. */
static __always_inline bool has_fin(const struct frame *frame, const struct arrival *arrival) {
    const __u8 *flags = arrival->l4 + TCP_FLAGS_OFFSET;

    return (const void *)(flags + 1) <= frame->end && *flags & TCP_FIN;
}

SEC("tc")
int server_egress(struct __sk_buff *skb) {
    struct frame frame = skb_frame(skb);
    struct arrival arrival = {};
    struct dcgym_lb_vip_key from;
    struct timestamp stamp;
    bool stamped;

    if (parse(&frame, &arrival) != FOR_BALANCER || !arrival.tcp_bytes)
        return TC_ACT_OK;
    from = sender(&arrival);
    if (!is_balanced(&from))
        return TC_ACT_OK;
    if (has_fin(&frame, &arrival))
        note_departure(departed(), bpf_ktime_get_ns());
    stamp = read_timestamp(&frame, arrival.l4, arrival.tcp_bytes);
    stamped = constants.cookies && stamp.at;
    if (stamped)
        replace(skb, arrival.l4 - frame.data, stamp.at + TIMESTAMP_VALUE, stamp.value,
                marked(stamp.value));
    if (arrival.returns)
        answer_syn(skb, stamped);
    return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
