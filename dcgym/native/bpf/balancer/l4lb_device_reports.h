/* SPDX-License-Identifier: GPL-2.0-only */
/* What agents report of devices (device_reports.h), into the registers that the rules look at. */
#ifndef DCGYM_BPF_L4LB_DEVICE_REPORTS_H
#define DCGYM_BPF_L4LB_DEVICE_REPORTS_H

/* Who may report of each device: a MAC's word, 0 where there is no such device. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} agents SEC(".maps");

/* Both kinds of reports, in host order. */
struct device_news {
    __u32 vip;
    __u32 server;
    __u32 device;
    __u32 sequence;
    __u16 queue;
    __u8 load;
    __u8 memory;
    __u8 is_busy;
    __u8 is_status; /* P4Mite's: of the busy bit alone */
};

static __always_inline bool is_stale(const struct dcgym_device *heard, __u32 sequence,
                                     __u64 now_ns) {
    return sequence && heard->sequence && (__s32)(sequence - heard->sequence) <= 0 &&
           now_ns < heard->time_ns + DCGYM_DEVICE_REORDERING_NS;
}

/*
 * What becomes of a report: a counter. Two CPUs may write one device's registers at once; the next
 * report mends that.
 */
__noinline __u32 take_news(const struct device_news *news, __u64 from) {
    const __u64 now_ns = bpf_ktime_get_ns();
    struct dcgym_lb_server_devices *of;
    struct dcgym_device *heard;
    const __u64 *agent;
    __u32 index;

    if (!news || news->vip >= constants.n_vips || news->load > DCGYM_FULL_LOAD ||
        news->memory > DCGYM_FULL_LOAD || news->is_busy > 1)
        return DCGYM_LB_DROP_MALFORMED;
    if (news->server >= DCGYM_LB_SERVERS || news->device >= DCGYM_DEVICES)
        return DCGYM_LB_UNKNOWN_DEVICE;
    index = target_index(news->vip, news->server, news->device);
    agent = bpf_map_lookup_elem(&agents, &index);
    of = devices_of(news->vip, news->server);
    if (!agent || !of || !*agent)
        return DCGYM_LB_UNKNOWN_DEVICE;
    if (*agent != from)
        return DCGYM_LB_MESSAGES_STRANGE;
    heard = &of->heard[news->device & (DCGYM_DEVICES - 1)];
    if (is_stale(heard, news->sequence, now_ns))
        return DCGYM_LB_STALE_REPORTS;
    if (news->is_status) {
        heard->is_busy = news->is_busy;
    } else {
        heard->load = news->load;
        heard->memory = news->memory;
        heard->queue = news->queue;
    }
    heard->sequence = news->sequence;
    heard->time_ns = now_ns;
    heard->reports++;
    return DCGYM_LB_DEVICE_REPORTS;
}

static __always_inline __u32 take_status(const struct dcgym_message *message, __u64 from) {
    const struct device_news news = {
        .vip = bpf_ntohs(message->vip),
        .server = bpf_ntohs(message->server),
        .device = message->device,
        .sequence = bpf_be64_to_cpu(message->serial),
        .is_busy = message->is_busy,
        .is_status = 1,
    };

    return take_news(&news, from);
}

static __always_inline bool is_device_report(const struct frame *frame) {
    const struct ethhdr *eth = frame->data;

    return !frame->tagged && (const void *)(eth + 1) <= frame->end &&
           eth->h_proto == bpf_htons(DCGYM_DEVICE_REPORT_TYPE);
}

/* Counts a report: it goes no further, whatever it says. */
static __always_inline int take_device_report(const struct frame *frame) {
    const struct ethhdr *eth = frame->data;
    const struct dcgym_device_report *report = (const void *)(eth + 1);
    struct device_news news = {};
    __u64 from = 0;

    if ((const void *)(report + 1) > frame->end) {
        count(DCGYM_LB_DROP_TRUNCATED);
        return FOR_NOBODY;
    }
    if (report->version != DCGYM_DEVICE_REPORT_VERSION) {
        count(DCGYM_LB_DROP_MALFORMED);
        return FOR_NOBODY;
    }
    news.vip = report->vip;
    news.server = report->server;
    news.device = report->device;
    news.sequence = bpf_ntohl(report->sequence);
    news.queue = bpf_ntohs(report->network);
    news.load = report->compute;
    news.memory = report->memory;
    __builtin_memcpy(&from, eth->h_source, sizeof(eth->h_source));
    count(take_news(&news, from));
    return FOR_NOBODY;
}

#endif
