/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any packet at any port of a switch: no byte is read beyond it, only what a router may change is
 * changed, a header checksum that was right stays right, and what is answered bears right ones. A
 * mux does the same, and puts what it takes from a VIP into a tunnel to a server.
 */
#include "../../../dcgym/native/bpf/fabric/fabric.bpf.c"

#include "kernel.h"

#define N_HOSTS 4
#define N_PORTS 4
#define N_SWITCHES 2
#define N_GROUPS 3
#define FLOWS 64
#define FIRST_VIP (N_HOSTS + 1)
#define N_VIPS 2
#define ECMP_ENTRIES 4
#define TUNNEL_ENTRIES 3
#define CHECKSUM_OFFSET 10
#define TTL_OFFSET 8

static struct dcgym_port_config port_values[N_PORTS];
static __u32 route_values[N_SWITCHES * N_HOSTS];
static struct dcgym_port_counters counter_values[N_PORTS];
static struct dcgym_red red_values[N_PORTS];
static __u64 flow_byte_values[N_PORTS * N_HOSTS];
static __u64 drop_values[DCGYM_DROP_REASONS];
static __u64 answer_values[N_SWITCHES];
static struct quote quote_values[1];
static struct dcgym_group group_values[N_GROUPS];
static struct dcgym_flow flow_values[FLOWS];
static struct dcgym_flow_id flow_ids[FLOWS];
static __u64 path_random_values[1];
static __u64 device_values[N_PORTS];
static __u64 memory_values[N_GROUPS];
static struct dcgym_vip_entry vip_values[N_SWITCHES * N_VIPS];
/* Of each switch: an entry that is not in use, two servers, none such. */
static dcgym_hmux_entry ecmp_values[N_SWITCHES * ECMP_ENTRIES] = {0, 1, 2, 3, 3, 2, 1, 0};
static __u32 tunnel_values[N_SWITCHES * TUNNEL_ENTRIES] = {1, 2, N_HOSTS + 1, 3, 4, 0};

static struct Qdisc qdisc;
static struct net_device device = {&qdisc};
static struct sk_buff kernel_skb = {&device};
static __u32 sent_to;

void *bpf_cast_to_kern_ctx(void *skb) {
    return &kernel_skb;
}

void *bpf_rdonly_cast(const void *object, __u32 type) {
    return (void *)object;
}

long bpf_redirect(__u32 ifindex, __u64 flags) {
    sent_to = ifindex;
    return TC_ACT_REDIRECT;
}

long bpf_clone_redirect(struct __sk_buff *skb, __u32 ifindex, __u64 flags) {
    sent_to = ifindex;
    return 0;
}

/* Linear afterwards, as in the kernel. */
long bpf_skb_change_tail(struct __sk_buff *skb, __u32 bytes, __u64 flags) {
    if (bytes > PACKET_BYTES)
        return -1;
    gather(skb);
    skb->len = bytes;
    lay_out(skb, bytes);
    return 0;
}

long bpf_skb_store_bytes(struct __sk_buff *skb, __u32 at, const void *from, __u32 bytes,
                         __u64 flags) {
    if (at > skb->len || bytes > skb->len - at)
        return -1;
    memcpy((__u8 *)(long)skb->data + at, from, bytes);
    return 0;
}

long bpf_skb_ecn_set_ce(struct __sk_buff *skb) {
    return 1;
}

static __u32 slot_of(const struct dcgym_flow_id *id) {
    return (id->switch_id ^ id->hash) % FLOWS;
}

static void *find_flow(const void *key) {
    const struct dcgym_flow_id *id = key;
    __u32 slot = slot_of(id);

    return memcmp(&flow_ids[slot], id, sizeof(*id)) ? NULL : &flow_values[slot];
}

long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags) {
    __u32 slot = slot_of(key);

    REQUIRE(map == &flows);
    memcpy(&flow_ids[slot], key, sizeof(flow_ids[slot]));
    memcpy(&flow_values[slot], value, sizeof(flow_values[slot]));
    return 0;
}

/* Group n leads to ports 1 to n + 1, with thresholds in the middle. */
static void make_groups(void) {
    memset(group_values, 0, sizeof(group_values));
    for (__u32 id = 0; id < N_GROUPS; id++) {
        struct dcgym_group_table *table = &group_values[id].tables[0];

        table->salt = id;
        table->size = id + 1;
        table->generation = id + 1;
        for (__u32 i = 0; i < table->size; i++)
            table->slots[i] = (struct dcgym_group_slot){i + 1, 1, 0x80000000u};
    }
}

/* Of each VIP: no entry, blocks of its own, a mapping for the rack's own hosts, another switch's.
 */
static void make_vips(__u32 kind) {
    const struct dcgym_vip_entry kinds[] = {{},        {FIRST_VIP, 0, 4}, {FIRST_VIP, 1, 2},
                                            {2, 2, 2}, {3, 0, 0},         {FIRST_VIP, 0, 1}};
    const __u32 n_kinds = sizeof(kinds) / sizeof(kinds[0]);
    const struct dcgym_hmux_constants values = {
        .seed = kind,
        .first_vip = FIRST_VIP,
        .n_vips = N_VIPS,
        .software_mux = kind & 1 ? N_HOSTS : 0,
        .ecmp_entries = ECMP_ENTRIES,
        .tunnel_entries = TUNNEL_ENTRIES,
    };

    set_constants(&hmux, &values, sizeof(values));
    for (__u32 i = 0; i < N_SWITCHES * N_VIPS; i++)
        vip_values[i] = kinds[(kind + i) % n_kinds];
}

static void begin(const __u8 *settings) {
    const struct dcgym_fabric_constants values = {
        .n_hosts = N_HOSTS,
        .count_flows = 1,
        .flow_entries = FLOWS,
        .least_mtu = settings[1] & 8 ? 60 : 0,
        .path_rule = settings[0] % DCGYM_PATH_RULES,
    };

    set_constants(&constants, &values, sizeof(values));
    make_groups();
    make_vips(settings[0] / DCGYM_PATH_RULES);
    for (__u32 i = 0; i < N_SWITCHES * N_HOSTS; i++)
        route_values[i] = (settings[0] / DCGYM_PATH_RULES + i) %
                          (N_GROUPS + 2); /* no route, a group, none such */
    for (__u32 i = 0; i < N_PORTS; i++)
        port_values[i] = (struct dcgym_port_config){
            .in_use = i > 0,
            .switch_id = i % N_SWITCHES,
            .port_id = i,
            .to_host = i == 1,
            .mark_probability = DCGYM_PROBABILITY_ONE / (1 + (settings[1] & 3)),
            .mark_min_bytes = 1000,
            .mark_max_bytes = settings[1] & 4 ? 1000 : 9000,
            .queue_bytes = settings[1] & 8 ? 0 : 20000,
            .mark_weight = settings[1] & 16 ? DCGYM_PROBABILITY_ONE : 100,
            .mark_packet_ns = settings[1] & 32 ? 0 : 12000,
            .loss_in = settings[1] & 64 ? 0x20000000u : 0,
            .loss_out = settings[1] & 128 ? 0x20000000u : 0,
            .mtu = i * 60,
        };
    /* A port with a link, others without. */
    for (__u32 i = 0; i < N_PORTS; i++)
        device_values[i] = i & 1 ? (__u64)(long)&device : 0;
    device.state = LINK_STARTED | (settings[2] & 1 ? LINK_WITHOUT_CARRIER : 0);
    path_random_values[0] = settings[0];
    memset(memory_values, settings[2], sizeof(memory_values));
    memset(answer_values, 0, sizeof(answer_values));
    memset(flow_values, 0, sizeof(flow_values));
    memset(flow_ids, 0xff, sizeof(flow_ids));
    memset(red_values, 0, sizeof(red_values));
    control.flowlet_gap_ns = settings[2] * 1000;
    now_ns = 1;
    random_state = 1;
}

static bool is_ipv4(const __u8 *frame) {
    return frame[12] == 0x08 && frame[13] == 0x00;
}

static void check_forwarded(const __u8 *before, const __u8 *after, __u32 length) {
    const __u32 hop = is_ipv4(before) ? ETH_HLEN + TTL_OFFSET : ETH_HLEN + 7;
    const __u32 words = length > ETH_HLEN ? before[ETH_HLEN] & 15 : 0;
    const bool is_arp = before[12] == 0x08 && before[13] == 0x06;

    REQUIRE(sent_to >= 1 && sent_to < N_PORTS);
    for (__u32 i = 0; i < length; i++) {
        const bool is_check = is_ipv4(before) && i - ETH_HLEN - CHECKSUM_OFFSET < 2;

        REQUIRE(before[i] == after[i] || (i >= 3 && i < 6) || is_check || (!is_arp && i == hop));
    }
    if (is_arp)
        return;
    REQUIRE(before[hop] > 1 && after[hop] == before[hop] - 1);
    if (is_ipv4(before) && length >= ETH_HLEN + 4 * words &&
        checksum(before + ETH_HLEN, 4 * words) == 0xffff)
        REQUIRE(checksum(after + ETH_HLEN, 4 * words) == 0xffff);
}

/* An error of the same family to the sender, which quotes the packet and has right checksums. */
static void check_answer(const __u8 *before, __u32 length, const __u8 *after, __u32 bytes) {
    const bool ipv4 = is_ipv4(before);
    const __u32 header = ipv4 ? 20 : 40, quoted = ETH_HLEN + header + 8, source = ipv4 ? 12 : 8;
    const __u8 *message = after + ETH_HLEN + header;
    __u8 pseudo[PACKET_BYTES] = {};

    REQUIRE(sent_to >= 1 && sent_to < N_PORTS && bytes > quoted && bytes <= quoted + QUOTE_BYTES);
    REQUIRE(memcmp(before + 12, after + 12, 2) == 0);
    REQUIRE(memcmp(after + quoted, before + ETH_HLEN, bytes - quoted) == 0);
    REQUIRE(bytes - quoted <= length - ETH_HLEN);
    REQUIRE(memcmp(after + ETH_HLEN + header - (ipv4 ? 4 : 16), before + ETH_HLEN + source,
                   ipv4 ? 4 : 16) == 0);
    if (ipv4) {
        REQUIRE(checksum(after + ETH_HLEN, header) == 0xffff);
        REQUIRE(checksum(message, bytes - ETH_HLEN - header) == 0xffff);
        return;
    }
    memcpy(pseudo, after + ETH_HLEN + 8, 32);
    pseudo[34] = (bytes - ETH_HLEN - header) >> 8;
    pseudo[35] = bytes - ETH_HLEN - header;
    pseudo[39] = IPPROTO_ICMPV6;
    memcpy(pseudo + 40, message, bytes - ETH_HLEN - header);
    REQUIRE(checksum(pseudo, 40 + bytes - ETH_HLEN - header) == 0xffff);
}

static __u64 refusals(void) {
    return drop_values[DCGYM_DROP_TTL_EXPIRED] + drop_values[DCGYM_DROP_TOO_BIG];
}

/* To a server in a header of IPv4 that is right, and inside as a router would have sent it on. */
static void check_tunnelled(const __u8 *before, const __u8 *after, __u32 length) {
    const __u8 *outer = after + ETH_HLEN;
    __u8 inner[PACKET_BYTES];

    REQUIRE(is_ipv4(after) && outer[0] == 0x45 && outer[9] == IPPROTO_IPIP);
    REQUIRE(checksum(outer, sizeof(struct iphdr)) == 0xffff);
    REQUIRE(outer[12] == 10 && outer[13] == 0xfe && outer[15] >= 1 && outer[15] <= N_SWITCHES);
    REQUIRE(outer[16] == 10 && outer[19] >= 1 && outer[19] <= N_HOSTS);
    REQUIRE((outer[2] << 8 | outer[3]) ==
            (before[ETH_HLEN + 2] << 8 | before[ETH_HLEN + 3]) + (int)sizeof(struct iphdr));
    memcpy(inner, after, ETH_HLEN);
    memcpy(inner + ETH_HLEN, outer + sizeof(struct iphdr), length - ETH_HLEN);
    check_forwarded(before, inner, length);
}

static void forward_frame(const __u8 *bytes, __u32 length, __u32 linear, __u32 ifindex,
                          bool has_owner, bool is_mux) {
    struct __sk_buff skb = receive(bytes, length, linear, ifindex);
    const __u64 refused = refusals(), too_big = drop_values[DCGYM_DROP_TOO_BIG];
    struct bpf_sock owner;
    int verdict;

    skb.sk = has_owner ? &owner : NULL;
    sent_to = 0;
    verdict = is_mux ? hmux_forward(&skb) : fabric_forward(&skb);
    if (verdict == TC_ACT_SHOT) {
        REQUIRE(!sent_to);
        /* A mux may find that a packet is too big for a tunnel when its time to live has fallen. */
        if (!is_mux || drop_values[DCGYM_DROP_TOO_BIG] == too_big)
            REQUIRE(memcmp(result(&skb), bytes, length) == 0);
        return;
    }
    REQUIRE(verdict == (has_owner ? TC_ACT_STOLEN : TC_ACT_REDIRECT));
    if (refusals() != refused)
        return check_answer(bytes, length, result(&skb), skb.len);
    if (is_mux && skb.len == length + sizeof(struct iphdr))
        return check_tunnelled(bytes, result(&skb), length);
    REQUIRE(skb.len == length);
    check_forwarded(bytes, result(&skb), length);
}

static void leave(const __u8 *bytes, __u32 length, __u32 linear, __u32 ifindex, __u32 backlog) {
    struct __sk_buff skb = receive(bytes, length, linear, ifindex);
    const __u64 marks = counter_values[ifindex % N_PORTS].marks;

    qdisc.qstats.backlog = backlog;
    REQUIRE(fabric_egress(&skb) != TC_ACT_REDIRECT);
    REQUIRE(memcmp(result(&skb), bytes, length) == 0);
    REQUIRE(counter_values[ifindex % N_PORTS].marks - marks <= 1);
    for (__u32 i = 0; i < N_PORTS; i++)
        REQUIRE(port_values[i].mark_max_bytes == port_values[i].mark_min_bytes ||
                red_values[i].average >> DCGYM_RED_FRACTION_BITS <= 0xffffffffu);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    make_guard();
    ADD_ARRAY(ports, port_values);
    ADD_ARRAY(routes, route_values);
    ADD_ARRAY(counters, counter_values);
    ADD_ARRAY(red_states, red_values);
    ADD_ARRAY(flow_bytes, flow_byte_values);
    ADD_ARRAY(drops, drop_values);
    ADD_ARRAY(answers, answer_values);
    ADD_ARRAY(quotes, quote_values);
    ADD_ARRAY(groups, group_values);
    ADD_ARRAY(path_randoms, path_random_values);
    ADD_ARRAY(devices, device_values);
    ADD_ARRAY(drill_memory, memory_values);
    ADD_ARRAY(hmux_vips, vip_values);
    ADD_ARRAY(hmux_ecmp, ecmp_values);
    ADD_ARRAY(hmux_tunnels, tunnel_values);
    ADD_TABLE(flows, find_flow);
    return 0;
}

/*
 * Three bytes of settings, then packets: length, linear part, interface and whether it leaves, has
 * an owner, meets a mux, backlog, time, bytes.
 */
int LLVMFuzzerTestOneInput(const __u8 *data, size_t size) {
    if (size < 3)
        return 0;
    begin(data);
    for (size_t at = 3; at + 5 < size;) {
        const __u8 *head = data + at;
        __u32 length = head[0];

        at += 5;
        if (length < ETH_HLEN || length > size - at)
            return 0;
        now_ns += (__u64)head[4] << (head[4] & 31);
        if (head[2] & 0x80)
            leave(data + at, length, head[1], head[2] % (N_PORTS + 1), head[3] << (head[3] & 15));
        else
            forward_frame(data + at, length, head[1], head[2] % (N_PORTS + 1), head[2] & 0x40,
                          head[2] & 0x20);
        at += length;
    }
    return 0;
}
