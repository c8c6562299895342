/* SPDX-License-Identifier: GPL-2.0-only */
/* Loses or marks given segments of a TCP connection, each as often as it is told to. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MSS 1448

struct rule {
    __u32 segment, times, mark;
};

/* RULES is given to the compiler: {segment, times, mark}, ... */
static volatile struct rule rules[] = {RULES};
static volatile __u32 first_seq;

SEC("tc")
int script(struct __sk_buff *skb) {
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct iphdr *ip = data + sizeof(struct ethhdr);
    struct tcphdr *tcp = (void *)(ip + 1);
    if ((void *)(tcp + 1) > end || ip->protocol != IPPROTO_TCP)
        return TC_ACT_OK;
    __u32 seq = bpf_ntohl(tcp->seq);
    if (tcp->syn) {
        first_seq = seq + 1;
        return TC_ACT_OK;
    }
    if (bpf_ntohs(ip->tot_len) <= sizeof(*ip) + tcp->doff * 4)
        return TC_ACT_OK;
    __u32 segment = (seq - first_seq) / MSS;
    for (__u32 i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].segment != segment || rules[i].times == 0)
            continue;
        rules[i].times--;
        if (!rules[i].mark)
            return TC_ACT_SHOT;
        bpf_skb_ecn_set_ce(skb);
        return TC_ACT_OK;
    }
    return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
