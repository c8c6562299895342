/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any packets at the balancer, at tc's hook or XDP's, in any order and at any time: no byte is read
 * beyond them, balanced ones keep all but their MACs or get a good outer header, others stay as
 * they are, and the flows that rules count are those of the flow table.
 */
#include "../../../dcgym/native/bpf/balancer/l4lb.bpf.c"

#include "kernel.h"

#define N_VIPS 2
#define N_BUCKETS 4
#define N_WITNESSES 16
#define N_SERVERS 3
#define MAC 0x0000060504030202ull
#define MAY_CHANGE_FROM (ETH_HLEN + 20) /* of a SYN-ACK: its options and its checksum */

static const struct dcgym_lb_vip_key vip_keys[] = {
    {{0x0100000a}, 0x5000, IPPROTO_TCP, 4}, /* 10.0.0.1 port 80 */
    {{0x0100000a}, 0x3500, IPPROTO_UDP, 4},
    {{0x0100000a}, 0, 0, 4},
    {{0xfd, 0, 0, 0x01000000}, 0x5000, IPPROTO_TCP, 6},
    {{0xfd, 0, 0, 0x01000000}, 0, 0, 6},
};
static __u32 vip_values[] = {0, 1, DCGYM_LB_NO_PORT, 1, DCGYM_LB_NO_PORT};
static struct dcgym_lb_target target_values[N_VIPS * DCGYM_LB_SERVERS * DCGYM_DEVICES];
static struct dcgym_lb_endpoint tunnel_values[N_VIPS * DCGYM_LB_SERVERS * DCGYM_DEVICES];
static __u64 agent_values[N_VIPS * DCGYM_LB_SERVERS * DCGYM_DEVICES];
static struct dcgym_lb_devices device_values[N_VIPS];
static struct dcgym_lb_state state_values[N_VIPS];
static struct dcgym_lb_region region_values[N_VIPS];
static struct dcgym_lb_pool pool_values[N_VIPS];
static struct witness witness_values[N_WITNESSES];
static __u64 counter_values[DCGYM_LB_COUNTERS];
static struct ticker ticker_values[1];
static struct bucket bucket_values[N_BUCKETS];
static struct told told_values[N_VIPS];
static struct dcgym_lb_constants settings_now;
static int locks;

/* Full now and then. */
long bpf_ringbuf_output(void *ring, const void *data, __u64 bytes, __u64 flags) {
    const struct dcgym_lb_probe *probe = data;

    REQUIRE(bytes == sizeof(*probe) && probe->vip < N_VIPS && probe->server < N_SERVERS);
    return bpf_get_prandom_u32() & 1 ? -1 : 0;
}

long bpf_redirect(__u32 ifindex, __u64 flags) {
    return TC_ACT_REDIRECT;
}

long bpf_check_mtu(void *context, __u32 ifindex, __u32 *mtu, __s32 more, __u64 flags) {
    return 0;
}

long bpf_l4_csum_replace(struct __sk_buff *skb, __u32 at, __u64 from, __u64 to, __u64 flags) {
    REQUIRE(at + sizeof(__u16) <= skb->len);
    return 0;
}

long bpf_xdp_load_bytes(struct xdp_md *xdp, __u32 at, void *to, __u32 bytes) {
    const __u32 length = xdp->data_end - xdp->data;

    if (at > length || bytes > length - at)
        return -1;
    memcpy(to, (__u8 *)(long)xdp->data + at, bytes);
    return 0;
}

long bpf_xdp_adjust_head(struct xdp_md *xdp, int bytes) {
    const long length = (long)xdp->data_end - xdp->data - bytes;

    if (length < ETH_HLEN || length > PACKET_BYTES)
        return -1;
    xdp->data += bytes;
    return 0;
}

long bpf_spin_lock(struct bpf_spin_lock *lock) {
    REQUIRE(locks++ == 0);
    return 0;
}

long bpf_spin_unlock(struct bpf_spin_lock *lock) {
    REQUIRE(--locks == 0);
    return 0;
}

long bpf_timer_init(struct bpf_timer *timer, void *map, __u64 flags) {
    return 0;
}

long bpf_timer_set_callback(struct bpf_timer *timer, void *callback) {
    return 0;
}

long bpf_timer_start(struct bpf_timer *timer, __u64 after_ns, __u64 flags) {
    return 0;
}

static void *find_vip(const void *key) {
    for (size_t i = 0; i < sizeof(vip_keys) / sizeof(vip_keys[0]); i++)
        if (memcmp(&vip_keys[i], key, sizeof(vip_keys[i])) == 0)
            return &vip_values[i];
    return NULL;
}

/* Publishes a pool: bit i of `members` says whether server i takes new flows. */
static void set_pool(__u32 vip, __u8 members, __u8 rule) {
    void *pools = region_values[vip].pools;
    const __u64 stride = sizeof(region_values[vip].pools[0]);
    const __u64 sequence = dcgym_lb_open(pools, stride);
    struct dcgym_lb_pool *pool = (void *)dcgym_lb_sequence(pools, stride, sequence);

    pool->rule = rule % DCGYM_N_RULES;
    pool->n = 0;
    pool->members[0] = members;
    for (__u16 i = 0; i < N_SERVERS; i++) {
        if (!(members & (1 << i)))
            continue;
        pool->server[pool->n] = i;
        pool->weight[pool->n] = i + 1;
        pool->n++;
    }
    dcgym_lb_publish(pools, stride, sequence);
}

/* All devices but one of each server, by some rule. */
static void set_devices(__u32 vip, __u8 rule) {
    struct dcgym_lb_device_policy *policy = &device_values[vip].policies[1];

    policy->sequence = 1;
    policy->rule = rule % DCGYM_N_DEVICE_RULES;
    policy->threshold = 50;
    policy->max_age_ns = rule & 1 ? 1000 : 0;
    policy->ring_slots[0] = rule & 2 ? DCGYM_RING_SLOTS : 0;
    for (__u32 i = 0; i < DCGYM_LB_SERVERS; i++) {
        policy->present[i] = 0x7f;
        for (__u32 d = 0; d < DCGYM_DEVICES; d++)
            policy->weight[i][d] = d;
    }
    for (__u32 i = 0; i < DCGYM_RING_SLOTS; i++)
        policy->ring[0][i] = i % DCGYM_DEVICES;
}

static void set_target(__u32 vip, __u8 server, __u8 device) {
    const __u32 index = target_index(vip, server, device);

    target_values[index] = (struct dcgym_lb_target){{2, 0, 0, device, vip, server}, 1};
    __builtin_memcpy(&agent_values[index], target_values[index].mac, ETH_ALEN);
    /* The last server has no end of a tunnel. */
    if (server + 1 < N_SERVERS)
        tunnel_values[index] = (struct dcgym_lb_endpoint){0x0a, {0xfd, 0, 0, server + 1}};
}

static void begin(const __u8 *settings) {
    const bool devices_on = settings[2] & 128;

    settings_now = (struct dcgym_lb_constants){
        .seed = 7,
        .n_vips = N_VIPS,
        .bucket_mask = N_BUCKETS - 1,
        .witness_mask = N_WITNESSES - 1,
        .collects = 1,
        .tracks = !(settings[2] & 1),
        .consistency = devices_on ? DCGYM_LB_BY_TABLE : (settings[2] >> 1) % 4,
        .devices = devices_on,
        .delivery = settings[2] & 64 ? DCGYM_LB_IPIP : DCGYM_LB_L2,
    };
    set_constants(&constants, &settings_now, sizeof(settings_now));
    control.syn_timeout_ns = control.closed_timeout_ns = 1000;
    control.tcp_timeout_ns = control.udp_timeout_ns = 10000;
    control.mac = control.source_mac = MAC;
    control.gateway_mac = settings[2] & 32 ? MAC : 0;
    control.tunnel_from.ipv4 = 0x0900000a;
    control.tunnel_from.ipv6[0] = 0xfd;
    control.tunnel_from.ipv6[3] = 0x09000000;
    control.messages.address = 0x6300000a; /* 10.0.0.99 */
    control.messages.probes = settings[2] & 3;
    control.messages.balancers = 2;
    control.messages.timeout_ns = 1000;
    for (__u32 n = 0; n <= DCGYM_LB_SERVERS; n++)
        control.messages.budgets[n] = (struct dcgym_prequal_budget){1ULL << 52, 1, 2};
    memset(told_values, 0, sizeof(told_values));
    memset(state_values, 0, sizeof(state_values));
    memset(region_values, 0, sizeof(region_values));
    memset(pool_values, 0, sizeof(pool_values));
    memset(bucket_values, 0, sizeof(bucket_values));
    memset(witness_values, 0, sizeof(witness_values));
    memset(target_values, 0, sizeof(target_values));
    memset(agent_values, 0, sizeof(agent_values));
    memset(device_values, 0, sizeof(device_values));
    for (__u32 vip = 0; vip < N_VIPS; vip++) {
        /* The last device is none. */
        for (__u8 i = 0; i < N_SERVERS; i++)
            for (__u8 d = 0; d < (devices_on ? DCGYM_DEVICES - 1 : 1); d++)
                set_target(vip, i, d);
        set_devices(vip, settings[1]);
        state_values[vip].random = 1;
        set_pool(vip, settings[0] >> (4 * vip), settings[1]);
    }
    now_ns = 1;
    random_state = 1;
}

/* Rules count per server the flows that are open; each lies in the table. */
static void check_counts(void) {
    __u32 open[N_VIPS][DCGYM_LB_SERVERS] = {};

    for (__u32 i = 0; i < N_BUCKETS * DCGYM_LB_WAYS; i++) {
        const struct flow *flow = &bucket_values[i / DCGYM_LB_WAYS].flows[i % DCGYM_LB_WAYS];

        REQUIRE(flow->phase <= DCGYM_LB_CLOSED);
        if (flow->phase == DCGYM_LB_CONN)
            open[flow->vip][server_at(flow->home)]++;
    }
    for (__u32 vip = 0; vip < N_VIPS; vip++)
        REQUIRE(memcmp(open[vip], state_values[vip].ongoing, sizeof(open[vip])) == 0);
    for (__u32 vip = 0; vip < N_VIPS; vip++)
        REQUIRE(told_values[vip].prequal.n <= DCGYM_PREQUAL_ANSWERS);
}

static bool is_ipv4(const __u8 *frame) {
    return frame[12] == 0x08 && frame[13] == 0x00;
}

/* Flags of a TCP header; 0 where there is none. */
static __u8 tcp_flags(const __u8 *frame, __u32 length) {
    __u32 at;

    if (length < ETH_HLEN + sizeof(struct iphdr))
        return 0;
    if (frame[ETH_HLEN + (is_ipv4(frame) ? 9 : 6)] != IPPROTO_TCP)
        return 0;
    at = ETH_HLEN + (is_ipv4(frame) ? 4 * (frame[ETH_HLEN] & 15) : sizeof(struct ipv6hdr));
    at += TCP_FLAGS_OFFSET;
    return at < length ? frame[at] : 0;
}

static bool is_answer(const __u8 *frame, __u32 length) {
    return (tcp_flags(frame, length) & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK);
}

/* The frame is a server's, with the packet as it was, or in an outer header that is right. */
static void check_delivery(const __u8 *before, __u32 length, const __u8 *after, __u32 sent_length) {
    const __u32 outer = sent_length - length;
    const __u64 mac = MAC;

    REQUIRE(after[0] == 2 && after[4] < N_VIPS && after[5] < N_SERVERS);
    REQUIRE(memcmp(after + ETH_ALEN, &mac, ETH_ALEN) == 0);
    REQUIRE(after[12] == before[12] && after[13] == before[13]);
    REQUIRE(memcmp(after + ETH_HLEN + outer, before + ETH_HLEN, length - ETH_HLEN) == 0);
    if (settings_now.delivery == DCGYM_LB_L2) {
        REQUIRE(outer == 0);
        return;
    }
    REQUIRE(outer == (is_ipv4(before) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr)));
    if (is_ipv4(before))
        REQUIRE(checksum(after + ETH_HLEN, sizeof(struct iphdr)) == 0xffff);
}

static void check_verdict(const __u8 *before, __u32 length, const __u8 *after, __u32 after_length,
                          bool is_sent, bool is_dropped) {
    /* What comes by tunnel leaves without it. */
    if (after_length < length)
        return;
    if (is_answer(before, length)) {
        REQUIRE(after_length == length);
        REQUIRE(memcmp(after + 12, before + 12, MAY_CHANGE_FROM < length ? 22 : length - 12) == 0);
    } else if (is_sent) {
        check_delivery(before, length, after, after_length);
    } else if (!is_dropped) {
        REQUIRE(after_length == length && memcmp(after, before, length) == 0);
    }
}

static void arrive(const __u8 *bytes, __u32 length, __u32 linear) {
    struct __sk_buff skb = receive(bytes, length, linear, 1);
    const int verdict = l4lb_balance(&skb);

    REQUIRE(verdict == TC_ACT_OK || verdict == TC_ACT_SHOT || verdict == TC_ACT_REDIRECT);
    check_verdict(bytes, length, result(&skb), skb.len, verdict == TC_ACT_REDIRECT,
                  verdict == TC_ACT_SHOT);
}

static void arrive_early(const __u8 *bytes, __u32 length) {
    struct xdp_md xdp = {.data = (__u32)(long)guard - length, .data_end = (__u32)(long)guard};
    const bool is_loader = bytes[12] == 0x88 && bytes[13] == 0xb5;
    int verdict;

    memcpy(guard - length, bytes, length);
    verdict = l4lb_xdp(&xdp);
    REQUIRE(verdict == XDP_PASS || verdict == XDP_DROP || verdict == XDP_TX);
    if (!is_loader)
        check_verdict(bytes, length, (__u8 *)(long)xdp.data, xdp.data_end - xdp.data,
                      verdict == XDP_TX, verdict == XDP_DROP);
}

/* Takes a server's number away, or gives it to another one. */
static void replace_server(__u8 choice) {
    struct dcgym_lb_target *target =
        &target_values[target_index(choice & 1, (choice >> 1) % N_SERVERS, choice >> 4 & 3)];

    target->generation = choice & 0x80 ? 0 : target->generation + 1;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    make_guard();
    ADD_TABLE(vips, find_vip);
    ADD_ARRAY(targets, target_values);
    ADD_ARRAY(tunnels, tunnel_values);
    ADD_ARRAY(agents, agent_values);
    ADD_ARRAY(devices, device_values);
    ADD_ARRAY(states, state_values);
    ADD_ARRAY(regions, region_values);
    ADD_ARRAY(pools, pool_values);
    ADD_ARRAY(witnesses, witness_values);
    ADD_ARRAY(counters, counter_values);
    ADD_ARRAY(tickers, ticker_values);
    ADD_ARRAY(buckets, bucket_values);
    ADD_ARRAY(tolds, told_values);
    return 0;
}

/* Three bytes of settings, then events: what, how long after the last one, and for a packet length,
 * linear part (255: at XDP's hook) and bytes. */
int LLVMFuzzerTestOneInput(const __u8 *data, size_t size) {
    __u32 zero = 0;

    if (size < 3)
        return 0;
    begin(data);
    for (size_t at = 3; at + 4 <= size;) {
        const __u8 *head = data + at;
        __u32 length = head[2];

        at += 4;
        now_ns += (__u64)head[1] << (head[1] & 15);
        if (head[0] == 'p') {
            set_pool(head[2] % N_VIPS, head[3], head[3] >> 3);
        } else if (head[0] == 's') {
            replace_server(head[2]);
        } else if (head[0] == 't') {
            tick(&tickers, &zero, ticker_values);
        } else {
            if (length < ETH_HLEN || length > size - at)
                return 0;
            if (head[3] == 255)
                arrive_early(data + at, length);
            else
                arrive(data + at, length, head[3]);
            REQUIRE(locks == 0);
            at += length;
        }
        if (settings_now.tracks)
            check_counts();
    }
    return 0;
}
