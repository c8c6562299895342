/* SPDX-License-Identifier: GPL-2.0-only */
/* A server's SYN-ACK on its way back through the balancer: it carries the server's load. */
#ifndef DCGYM_BPF_L4LB_REPORT_H
#define DCGYM_BPF_L4LB_REPORT_H

struct reply {
    __u64 next_hop;   /* a MAC's word */
    __u32 check_at;   /* of the TCP checksum, from the frame's begin on */
    __u32 difference; /* by which the sum changed */
};

static __always_inline __u32 cookie_of(__u32 timestamp) {
    return bpf_ntohl(timestamp) >> DCGYM_LB_CLOCK_BITS;
}

static __always_inline void note_load(__u32 vip, __u32 server,
                                      const struct dcgym_lb_report *report) {
    struct dcgym_lb_state *state = state_of(vip);

    if (!state)
        return;
    /* Registers of one server may be written by two CPUs at once: the next report mends that. */
    dcgym_score_report(&state->score[server & (DCGYM_LB_SERVERS - 1)], bpf_ntohs(report->flows),
                       (__u64)bpf_ntohl(report->speed) << DCGYM_LB_SPEED_SHIFT, bpf_ktime_get_ns());
    note_reported_load(vip, server, bpf_ntohs(report->flows),
                       (__u64)bpf_ntohl(report->service) << DCGYM_LB_SERVICE_SHIFT);
    count(DCGYM_LB_REPORTS);
}

/* Takes the load out of a SYN-ACK. False if it has none, and is then none of our business. */
static __always_inline bool take_report(const struct frame *frame, const struct arrival *arrival,
                                        struct reply *reply) {
    const struct dcgym_lb_vip_key from = sender(arrival);
    struct dcgym_lb_report report, blank;
    struct timestamp stamp;
    __u32 *vip = bpf_map_lookup_elem(&vips, &from);
    void *option;
    __u32 at;

    if (!vip)
        return false;
    stamp = read_timestamp(frame, arrival->l4, arrival->tcp_bytes);
    at = option_at(frame, arrival->l4, arrival->tcp_bytes, DCGYM_LB_REPORT_KIND, sizeof(report));
    /* At an odd offset its bytes would have changed places in the checksum. */
    if (!stamp.at || !at || at & 1)
        return false;
    option = arrival->l4 + bounded(at);
    if (option + sizeof(report) > frame->end)
        return false;
    __builtin_memcpy(&report, option, sizeof(report));
    if (report.id != bpf_htons(DCGYM_LB_REPORT_ID))
        return false;
    __builtin_memset(&blank, TCP_OPTION_NOP, sizeof(blank));
    __builtin_memcpy(option, &blank, sizeof(blank));
    note_load(*vip, cookie_of(stamp.value), &report);
    reply->difference =
        bpf_csum_diff((void *)&report, sizeof(report), (void *)&blank, sizeof(blank), 0);
    reply->check_at = arrival->l4 + offsetof(struct tcphdr, check) - frame->data;
    __builtin_memcpy(&reply->next_hop, report.next_hop, sizeof(report.next_hop));
    if (!reply->next_hop)
        reply->next_hop = control.gateway_mac;
    return true;
}

#endif
