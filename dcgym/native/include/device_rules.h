/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which device of a server gets the next request: its processors, or one of its accelerators. This
 * is the second level; rules.h chooses the server first. Integers only, every loop bounded by a
 * constant, no memory of its own, as in rules.h.
 *
 * Device 0 is the server's processors; the others follow from fast to slow. What is reported and
 * what is configured lie apart: a policy comes into force whole, whatever reports arrive meanwhile.
 * A register that no report has written holds 0, as in the sources' switch. With `max_age_ns` above
 * 0 a device without a report of at most this age is passed over, and without any such device the
 * first one serves.
 *
 * A server's devices are looked at as bits of a mask, up to the last one there is. No other branch
 * is within such a loop: the verifier would follow both ways of it at each device.
 *
 * Sources: Tajbakhsh, "Programmable and intelligent accelerator-aware load balancers in data
 * centers" (2023): P4Mite in chapter 4, minimum finder, ring and policies in chapter 5.
 */
#ifndef DCGYM_DEVICE_RULES_H
#define DCGYM_DEVICE_RULES_H

#include <linux/types.h>

#include "rule_views.h"
#include "splitmix.h"

/* Of a server, its processors included: what one pass of a switch reads. */
#define DCGYM_DEVICES 8
#define DCGYM_RING_SLOTS 2048
#define DCGYM_NO_DEVICE 0xffU
#define DCGYM_FULL_LOAD 100 /* per cent: a device whose workers are all busy */

/* A loop that stays one: unrolled, what it keeps of eight devices fills a BPF program's stack. */
#ifdef __bpf__
#define DCGYM_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define DCGYM_ROLLED
#endif

enum dcgym_device_rule {
#define DCGYM_ROW(symbol, ...) DCGYM_DEVICE_RULE_##symbol,
#include "tables/device_rules.h"
    DCGYM_N_DEVICE_RULES,
};

/* What a device has reported. */
struct dcgym_device {
    __u64 time_ns;  /* when its last report came */
    __u32 reports;  /* so many have come */
    __u32 sequence; /* number of the last one; 0: its agent does not number them */
    __u16 queue;    /* requests at the device */
    __u8 load;      /* per cent, without decimals */
    __u8 is_busy;   /* P4Mite's status */
    __u8 memory;    /* per cent; no rule looks at it */
    __u8 unused[3];
};

/* A server's devices, and how to choose among them. */
struct dcgym_device_view {
    const struct dcgym_device *device; /* DCGYM_DEVICES of them */
    const __u32 *weight;               /* the same: W[d,0] of equation 5.1 */
    const __u8 *by_bits;               /* p4mite: device by busy bits, 2^DCGYM_DEVICES of them */
    const __u8 *ring;                  /* wrr: DCGYM_RING_SLOTS, the first ring_slots in use */
    __u32 ring_slots;
    __u32 threshold; /* prt: per cent */
    __u32 present;   /* bit d: device d takes new requests */
    __u64 max_age_ns;
    __u64 now_ns;
};

/* What the rules keep of one server. */
struct dcgym_device_turns {
    __u32 next; /* slot or device whose turn it is */
    __u32 unused;
    __s64 credit[DCGYM_DEVICES]; /* dynamic-wrr */
};

DCGYM_INLINE __u32 dcgym_device_bound(__u32 device) {
    return device & (DCGYM_DEVICES - 1);
}

/* Position of the lowest bit of eight; DCGYM_NO_DEVICE without one. */
DCGYM_INLINE __u32 dcgym_lowest_bit(__u32 bits) {
    const __u64 lowest = bits & (0 - bits);

    if (!lowest)
        return DCGYM_NO_DEVICE;
    return (__u32)(dcgym_less(0, lowest & 0xaa) + 2 * dcgym_less(0, lowest & 0xcc) +
                   4 * dcgym_less(0, lowest & 0xf0));
}

/* The devices that are there and that have been heard of lately, if that matters. */
DCGYM_INLINE __u32 dcgym_usable_bits(const struct dcgym_device_view *view) {
    __u64 bits = 0;

    if (!view->max_age_ns)
        return view->present;
    for (__u32 i = 0; i < DCGYM_DEVICES && view->present >> i; i++) {
        const struct dcgym_device *one = &view->device[i];
        const __u64 is_late = dcgym_less(one->time_ns + view->max_age_ns, view->now_ns);

        bits |= (dcgym_less(0, one->reports) & (1 - is_late)) << i;
    }
    return (__u32)bits & view->present;
}

DCGYM_INLINE __u32 dcgym_first_device(const struct dcgym_device_view *view) {
    return dcgym_lowest_bit(view->present);
}

/* The next device that is there, in turn. */
DCGYM_INLINE __u32 dcgym_device_turn(const struct dcgym_device_view *view,
                                     struct dcgym_device_turns *turns) {
    const __u32 next = dcgym_device_bound(turns->next), bits = view->present;
    const __u32 ahead = dcgym_lowest_bit((bits >> next | bits << (DCGYM_DEVICES - next)) & 0xff);

    if (ahead == DCGYM_NO_DEVICE)
        return ahead;
    turns->next = dcgym_device_bound(next + ahead) + 1;
    return dcgym_device_bound(next + ahead);
}

/* The round-robin scheduler: the device in the next slot of a ring; an empty one has none. */
DCGYM_INLINE __u32 dcgym_ring_turn(const struct dcgym_device_view *view,
                                   struct dcgym_device_turns *turns) {
    const __u32 slot = turns->next < view->ring_slots ? turns->next : 0;

    if (!view->ring_slots)
        return dcgym_first_device(view);
    turns->next = slot + 1;
    return view->ring[slot & (DCGYM_RING_SLOTS - 1)];
}

/*
 * Smooth weighted round robin (rules_in_turn.h) by Weight[d,t] = Weight[d,0] (1 - load), equation
 * 5.1; by Weight[d,0] where every device is full.
 */
DCGYM_INLINE __u32 dcgym_dynamic_turn(const struct dcgym_device_view *view,
                                      struct dcgym_device_turns *turns) {
    const __u64 usable = dcgym_usable_bits(view), bias = 1ULL << 60;
    __u64 is_idle = 0, sum = 0, best = 0, found = 0;

    DCGYM_ROLLED
    for (__u32 i = 0; i < DCGYM_DEVICES && usable >> i; i++)
        is_idle |= usable >> i & dcgym_less(0, view->weight[i]) &
                   dcgym_less(view->device[i].load, DCGYM_FULL_LOAD);
    is_idle &= 1;
    DCGYM_ROLLED
    for (__u32 i = 0; i < DCGYM_DEVICES && usable >> i; i++) {
        const struct dcgym_device *one = &view->device[i];
        const __u64 is_open = dcgym_less(one->load, DCGYM_FULL_LOAD);
        const __u64 idle = (0 - is_open) & (DCGYM_FULL_LOAD - (__u64)one->load);
        const __u64 share = dcgym_pick(is_idle, idle, 1);
        const __u64 weight = (usable >> i & 1) * view->weight[i] * share;
        const __u64 credit = (__u64)turns->credit[i] + weight;
        const __u64 score = dcgym_pick(dcgym_less(0, weight), credit + bias, 0);
        const __u64 is_better = dcgym_less(best, score);

        turns->credit[i] = (__s64)credit;
        sum += weight;
        best = dcgym_pick(is_better, score, best);
        found = dcgym_pick(is_better, i, found);
    }
    if (!sum)
        return dcgym_first_device(view);
    found = dcgym_device_bound((__u32)found);
    turns->credit[found] -= (__s64)sum;
    return (__u32)found;
}

/* The minimum finder: the first of the least load, or queue. */
DCGYM_INLINE __u32 dcgym_least_device(const struct dcgym_device_view *view, int by_queue) {
    const __u64 usable = dcgym_usable_bits(view);
    __u64 best = 1ULL << 62;

    for (__u32 i = 0; i < DCGYM_DEVICES && usable >> i; i++) {
        const __u64 value = by_queue ? view->device[i].queue : view->device[i].load;
        const __u64 key = (~usable >> i & 1) << 32 | value << 8 | i;

        best = dcgym_pick(dcgym_less(key, best), key, best);
    }
    return best >> 32 ? dcgym_first_device(view) : dcgym_device_bound((__u32)best);
}

/* Prioritisation: strictly by speed, the first device that is not full. */
DCGYM_INLINE __u32 dcgym_prior_device(const struct dcgym_device_view *view) {
    __u64 bits = 0;
    __u32 found;

    for (__u32 i = 0; i < DCGYM_DEVICES && view->present >> i; i++)
        bits |= dcgym_less(view->device[i].load, view->threshold) << i;
    found = dcgym_lowest_bit((__u32)bits & dcgym_usable_bits(view));
    return found == DCGYM_NO_DEVICE ? dcgym_first_device(view) : found;
}

/* The bitmap of a server; bit d is 1 where device d is busy, gone, or not heard of for too long. */
DCGYM_INLINE __u32 dcgym_busy_bits(const struct dcgym_device_view *view) {
    __u64 bits = 0;

    for (__u32 i = 0; i < DCGYM_DEVICES && view->present >> i; i++)
        bits |= dcgym_less(0, view->device[i].is_busy) << i;
    return ((__u32)bits | ~dcgym_usable_bits(view)) & 0xff;
}

DCGYM_INLINE __u32 dcgym_free_device(const struct dcgym_device_view *view) {
    const __u32 found = dcgym_device_bound(view->by_bits[dcgym_busy_bits(view)]);

    return view->present >> found & 1 ? found : dcgym_first_device(view);
}

/* Power of two choices: the lower load of two devices at random, the first where they tie. */
DCGYM_INLINE __u32 dcgym_device_of_two(const struct dcgym_device_view *view, __u64 *random) {
    const __u64 usable = dcgym_usable_bits(view);
    __u64 first = 0, second = 0, n = 0;
    __u32 a, b;

    for (__u32 i = 0; i < DCGYM_DEVICES && usable >> i; i++)
        n += usable >> i & 1;
    if (!n)
        return dcgym_first_device(view);
    dcgym_two_of(random, (__u32)n, &a, &b);
    n = 0;
    for (__u32 i = 0; i < DCGYM_DEVICES && usable >> i; i++) {
        first |= (usable >> i & dcgym_same(n, a)) << i;
        second |= (usable >> i & dcgym_same(n, b)) << i;
        n += usable >> i & 1;
    }
    a = dcgym_device_bound(dcgym_lowest_bit((__u32)first));
    b = dcgym_device_bound(dcgym_lowest_bit((__u32)second));
    return view->device[b].load < view->device[a].load ? b : a;
}

DCGYM_INLINE int dcgym_device_needs_reports(__u32 rule) {
    return rule != DCGYM_DEVICE_RULE_SERVER_ONLY && rule != DCGYM_DEVICE_RULE_ECMP &&
           rule != DCGYM_DEVICE_RULE_WRR;
}

/* Whether the rule has nothing to go by: an empty ring, or no report that is young enough. */
DCGYM_INLINE int dcgym_device_is_blind(__u32 rule, const struct dcgym_device_view *view) {
    if (rule == DCGYM_DEVICE_RULE_WRR)
        return !view->ring_slots;
    return view->max_age_ns && dcgym_device_needs_reports(rule) && !dcgym_usable_bits(view);
}

/* Number of the device for a new request; DCGYM_NO_DEVICE where the server has none. */
DCGYM_INLINE __u32 dcgym_device_choose(__u32 rule, const struct dcgym_device_view *view,
                                       struct dcgym_device_turns *turns, __u64 *random) {
    switch (rule) {
    case DCGYM_DEVICE_RULE_ECMP:
        return dcgym_device_turn(view, turns);
    case DCGYM_DEVICE_RULE_WRR:
        return dcgym_ring_turn(view, turns);
    case DCGYM_DEVICE_RULE_DYNAMIC_WRR:
        return dcgym_dynamic_turn(view, turns);
    case DCGYM_DEVICE_RULE_LUR:
    case DCGYM_DEVICE_RULE_JSQ:
        return dcgym_least_device(view, rule == DCGYM_DEVICE_RULE_JSQ);
    case DCGYM_DEVICE_RULE_PRT:
        return dcgym_prior_device(view);
    case DCGYM_DEVICE_RULE_P4MITE:
        return dcgym_free_device(view);
    case DCGYM_DEVICE_RULE_PO2:
        return dcgym_device_of_two(view, random);
    default:
        return dcgym_first_device(view);
    }
}

#endif
