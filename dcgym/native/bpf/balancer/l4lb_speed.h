/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How fast a server gets through its flows, as Charon's forecast needs it (Yao 2023, section 4.2):
 * where the server does not tell, from the mean time between two flows' ends while it has work.
 */
#ifndef DCGYM_BPF_L4LB_SPEED_H
#define DCGYM_BPF_L4LB_SPEED_H

#define GAP_MEMORY_SHIFT 4 /* the mean goes 1/16 of the way to each new gap */

struct departures {
    __u64 since_ns;    /* last end, or since when there is work again */
    __u64 mean_gap_ns; /* 0: none was seen */
};

/* The time that a server stands idle is no gap. CPUs may race: a gap more or less is no matter. */
static __always_inline void note_arrival(struct departures *departures, __u32 busy, __u64 now_ns) {
    if (departures && !busy)
        departures->since_ns = now_ns;
}

static __always_inline void note_departure(struct departures *departures, __u64 now_ns) {
    __u64 gap_ns, mean_ns;

    if (!departures)
        return;
    gap_ns = dcgym_elapsed_ns(now_ns, departures->since_ns);
    mean_ns = departures->mean_gap_ns;
    departures->since_ns = now_ns;
    if (!mean_ns)
        mean_ns = gap_ns;
    departures->mean_gap_ns =
        mean_ns - (mean_ns >> GAP_MEMORY_SHIFT) + (gap_ns >> GAP_MEMORY_SHIFT);
}

/*
 * In a report's unit; 0 while nothing is known. Flows in service once the new one is there, by
 * their mean time in it, as the twin has it, where the server tells; else one flow per mean time
 * between two ends.
 */
static __always_inline __u32 speed_of(const struct dcgym_lb_load *load, __u32 flows,
                                      const struct departures *departures) {
    const __u64 one = DCGYM_SCORE_ONE << DCGYM_TICK_SHIFT >> DCGYM_LB_SPEED_SHIFT;
    __u64 speed = 0;

    if (load && load->mean_service_ns)
        speed = (flows < load->workers ? flows : load->workers) * one / load->mean_service_ns;
    else if (departures && departures->mean_gap_ns)
        speed = one / departures->mean_gap_ns;
    return speed < 0xffffffff ? speed : 0xffffffff;
}

/* C3's 1/mu in a report's unit: the mean time in service over the workers; 0 while it is unknown.
 */
static __always_inline __u32 service_of(const struct dcgym_lb_load *load,
                                        const struct departures *departures) {
    __u64 service_ns = 0;

    if (load && load->mean_service_ns && load->workers)
        service_ns = load->mean_service_ns / load->workers;
    else if (departures)
        service_ns = departures->mean_gap_ns;
    service_ns >>= DCGYM_LB_SERVICE_SHIFT;
    return service_ns < 0xffffffff ? service_ns : 0xffffffff;
}

#endif
