// SPDX-License-Identifier: GPL-2.0-only
/* Link delay: takes what arrives over a link to the relay's TAP, and what comes back to the link.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "link_delay.h"

/* At the receiving end of a link: behind the sender's token bucket, before the switch or the host.
 */
SEC("tc")
int delay_take(struct __sk_buff *skb) {
    if (skb->mark == DCGYM_DELAY_OVER) {
        skb->mark = 0;
        return TC_ACT_UNSPEC;
    }
    if (bpf_skb_vlan_push(skb, bpf_htons(DCGYM_DELAY_STAMP_PROTOCOL),
                          (__u16)(bpf_ktime_get_ns() >> DCGYM_DELAY_STAMP_SHIFT)))
        return TC_ACT_SHOT;
    return bpf_redirect(skb->ifindex + DCGYM_DELAY_IFINDEX, 0);
}

/* At the TAP. The mark survives, as both interfaces are in one network namespace. */
SEC("tc")
int delay_return(struct __sk_buff *skb) {
    skb->mark = DCGYM_DELAY_OVER;
    return bpf_redirect(skb->ifindex - DCGYM_DELAY_IFINDEX, BPF_F_INGRESS);
}

char LICENSE[] SEC("license") = "GPL";
