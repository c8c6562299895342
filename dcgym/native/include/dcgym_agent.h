/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * dcgym_agent: Reno (RFC 5681) whose window and pacing rate an agent may set, flow by flow, as Orca
 * (SIGCOMM 2020), Aurora (ICML 2019) and CCP (SIGCOMM 2018) do. The same code runs as BPF
 * struct_ops program and in the packet twin; this file is also the layout of the memory that agents
 * map.
 *
 * What an agent has set holds until its lease ends. A flow that sees the lease ended goes on as
 * Reno, from the window that it has, at its next acknowledgement: within a round trip, since no
 * window is below 2 packets. A flow that is paced so slowly that nothing is in flight hears of it
 * after its next packet, and no rate is below 2 packets in 100 ms.
 */
#ifndef DCGYM_AGENT_H
#define DCGYM_AGENT_H

#include "window_control.h"

/* Flows that have a slot at a time. */
#define DCGYM_AGENT_SLOTS 4096

#define DCGYM_AGENT_MOST_CWND 65535u
#define DCGYM_AGENT_LEAST_MULTIPLIER_Q16 4096u      /* 1/16 */
#define DCGYM_AGENT_MOST_MULTIPLIER_Q16 (16u << 16) /* 16 */
#define DCGYM_AGENT_LEAST_RATE 28960ull             /* bytes a second: 2 packets in 100 ms */
#define DCGYM_AGENT_MOST_RATE 125000000000ull       /* 1 Tbit/s */
/* A paced flow has a window of twice its rate times the round trip: the rate is what limits it. */
#define DCGYM_AGENT_RATE_WINDOW 2u

enum dcgym_agent_flag {
    DCGYM_AGENT_MULTIPLIER = 1, /* once, when it is taken; Reno goes on from there */
    DCGYM_AGENT_WINDOW = 2,     /* held in the place of Reno's */
    DCGYM_AGENT_RATE = 4,       /* paced; with no window of its own, Reno's is not used either */
    DCGYM_AGENT_FLAGS = 7,
};

enum dcgym_agent_slot_state { DCGYM_AGENT_FREE, DCGYM_AGENT_OPEN, DCGYM_AGENT_CLOSED };

/*
 * A flow, written at each of its ACKs. Slots are taken from the first on, so that those that were
 * ever used have no free one before them. Counters are the kernel's, and begin anew after
 * 2^32.
 */
struct dcgym_agent_flow {
    __u64 sequence;   /* odd while it is written */
    __u64 updated_us; /* CLOCK_MONOTONIC */
    __u64 rtt_sum_us; /* of all that were measured */
    __u64 pacing_bytes_per_s;
    __u64 taken;        /* sequence of the command in force; 0: none yet */
    __u64 taken_us;     /* when it was taken */
    __u32 generation;   /* of the slot: another flow has another one */
    __u32 state;        /* enum dcgym_agent_slot_state */
    __u32 src_address;  /* in network order */
    __u32 dst_address;  /* likewise */
    __u32 src_port;     /* in host order */
    __u32 dst_port;     /* likewise */
    __u32 sent_packets; /* segments with data, retransmissions included */
    __u32 delivered_packets;
    __u32 lost_packets;
    __u32 marked_packets;
    __u32 rtts; /* that were measured */
    __u32 rtt_us;
    __u32 srtt_us;
    __u32 min_rtt_us; /* 0: none yet */
    __u32 cwnd_packets;
    __u32 in_flight_packets;
    __u32 mss_bytes;
    __u32 flags;     /* of the command in force; 0: Reno */
    __u32 clamped;   /* commands that were out of range */
    __u32 fallbacks; /* times that a lease ended under a command */
};

/* What the agent wants of the flow in the slot of the same number. */
struct dcgym_agent_command {
    __u64 sequence; /* odd while it is written */
    __u64 pacing_bytes_per_s;
    __u32 generation; /* of the flow that it is for */
    __u32 flags;
    __u32 multiplier_q16;
    __u32 cwnd_packets;
};

struct dcgym_agent_control {
    __u64 lease_us;  /* until when commands hold, CLOCK_MONOTONIC; written by the agent */
    __u64 n_flows;   /* that were given a slot */
    __u64 n_without; /* ACKs of flows for which there was none; they are Reno */
};

/* Of one flow, private to it. */
struct dcgym_agent {
    __u64 taken;
    __u64 taken_us;
    __u64 pacing_bytes_per_s;
    __u64 rtt_sum_us;
    __u32 rtts;
    __u32 min_rtt_us;
    __u32 cwnd_packets;
    __u32 ssthresh_packets;
    __u32 acked_packets; /* towards the next packet of the window */
    __u32 prior_cwnd_packets;
    __u32 prior_ssthresh_packets;
    __u32 flags;
    __u32 clamped;
    __u32 fallbacks;
};

DCGYM_INLINE void dcgym_agent_begin(struct dcgym_agent *agent, __u32 cwnd_packets) {
    *agent = (struct dcgym_agent){};
    agent->cwnd_packets = cwnd_packets;
    agent->ssthresh_packets = 0x7fffffff;
}

DCGYM_INLINE __u64 dcgym_agent_rate(__u64 rate) {
    if (rate > DCGYM_AGENT_MOST_RATE)
        return DCGYM_AGENT_MOST_RATE;
    return rate < DCGYM_AGENT_LEAST_RATE ? DCGYM_AGENT_LEAST_RATE : rate;
}

DCGYM_INLINE void dcgym_agent_multiply(struct dcgym_agent *agent, __u32 multiplier_q16) {
    __u64 cwnd = ((__u64)agent->cwnd_packets * multiplier_q16 + 32768) >> 16;

    agent->cwnd_packets =
        dcgym_clamp(cwnd > DCGYM_AGENT_MOST_CWND ? DCGYM_AGENT_MOST_CWND : (__u32)cwnd,
                    DCGYM_LEAST_CWND, DCGYM_AGENT_MOST_CWND);
    /* A cut ends slow start, which would undo it within a round trip. */
    if (multiplier_q16 < DCGYM_CWND_ONE)
        agent->ssthresh_packets = dcgym_least(agent->ssthresh_packets, agent->cwnd_packets);
}

/* Puts a command in force. What is out of range is brought into it, and counted once. */
DCGYM_INLINE void dcgym_agent_take(struct dcgym_agent *agent,
                                   const struct dcgym_agent_command *command,
                                   const struct dcgym_cc_ack *ack) {
    __u32 multiplier = dcgym_clamp(command->multiplier_q16, DCGYM_AGENT_LEAST_MULTIPLIER_Q16,
                                   DCGYM_AGENT_MOST_MULTIPLIER_Q16);
    __u32 cwnd = dcgym_clamp(command->cwnd_packets, DCGYM_LEAST_CWND, DCGYM_AGENT_MOST_CWND);
    __u64 rate = dcgym_agent_rate(command->pacing_bytes_per_s);
    __u32 flags = command->flags & DCGYM_AGENT_FLAGS;
    __u32 is_clamped = flags != command->flags;

    if (flags & DCGYM_AGENT_MULTIPLIER) {
        is_clamped |= multiplier != command->multiplier_q16;
        dcgym_agent_multiply(agent, multiplier);
    }
    if (flags & DCGYM_AGENT_WINDOW) {
        is_clamped |= cwnd != command->cwnd_packets;
        agent->cwnd_packets = cwnd;
    }
    if (flags & DCGYM_AGENT_RATE)
        is_clamped |= rate != command->pacing_bytes_per_s;
    agent->pacing_bytes_per_s = flags & DCGYM_AGENT_RATE ? rate : 0;
    agent->clamped += is_clamped;
    agent->acked_packets = 0;
    agent->flags = flags;
    agent->taken = command->sequence;
    agent->taken_us = ack->now_us;
}

/* Without a lease: Reno, in congestion avoidance from the window that the flow has. */
DCGYM_INLINE void dcgym_agent_expire(struct dcgym_agent *agent, __u64 now_us, __u64 lease_us) {
    if (!agent->flags || now_us <= lease_us)
        return;
    if (agent->flags & (DCGYM_AGENT_WINDOW | DCGYM_AGENT_RATE))
        agent->ssthresh_packets = dcgym_most(agent->cwnd_packets, DCGYM_LEAST_CWND);
    agent->flags = 0;
    agent->pacing_bytes_per_s = 0;
    agent->fallbacks++;
}

DCGYM_INLINE __u32 dcgym_agent_is_reno(const struct dcgym_agent *agent) {
    return !(agent->flags & (DCGYM_AGENT_WINDOW | DCGYM_AGENT_RATE));
}

DCGYM_INLINE __u32 dcgym_agent_in_slow_start(const struct dcgym_agent *agent) {
    return agent->cwnd_packets < agent->ssthresh_packets;
}

/* RFC 5681: slow start below the threshold, then one packet a window. */
DCGYM_INLINE void dcgym_agent_grow(struct dcgym_agent *agent, __u32 acked_packets) {
    if (dcgym_agent_in_slow_start(agent)) {
        agent->cwnd_packets =
            dcgym_least(agent->cwnd_packets + acked_packets, agent->ssthresh_packets);
    } else {
        agent->acked_packets += acked_packets;
        if (agent->acked_packets >= agent->cwnd_packets) {
            agent->acked_packets -= agent->cwnd_packets;
            agent->cwnd_packets++;
        }
    }
    agent->cwnd_packets = dcgym_least(agent->cwnd_packets, DCGYM_AGENT_MOST_CWND);
}

DCGYM_INLINE void dcgym_agent_measure(struct dcgym_agent *agent, const struct dcgym_cc_ack *ack) {
    if (!ack->rtt_us)
        return;
    agent->min_rtt_us =
        agent->min_rtt_us ? dcgym_least(agent->min_rtt_us, ack->rtt_us) : ack->rtt_us;
    agent->rtt_sum_us += ack->rtt_us;
    agent->rtts++;
}

/* Needed only where a command is in force or a new one waits. */
DCGYM_INLINE void dcgym_agent_obey(struct dcgym_agent *agent, const struct dcgym_cc_ack *ack,
                                   const struct dcgym_agent_command *command, __u64 lease_us) {
    dcgym_agent_expire(agent, ack->now_us, lease_us);
    if (command && ack->now_us <= lease_us && command->sequence != agent->taken)
        dcgym_agent_take(agent, command, ack);
}

/* What is limited by its window grows; not in fast recovery. */
DCGYM_INLINE void dcgym_agent_go_on(struct dcgym_agent *agent, const struct dcgym_cc_ack *ack) {
    if (dcgym_agent_is_reno(agent) && ack->is_limited)
        dcgym_agent_grow(agent, ack->acked_packets);
}

DCGYM_INLINE void dcgym_agent_on_ack(struct dcgym_agent *agent, const struct dcgym_cc_ack *ack,
                                     const struct dcgym_agent_command *command, __u64 lease_us) {
    dcgym_agent_measure(agent, ack);
    dcgym_agent_obey(agent, ack, command, lease_us);
    dcgym_agent_go_on(agent, ack);
}

DCGYM_INLINE void dcgym_agent_halve(struct dcgym_agent *agent) {
    agent->prior_cwnd_packets = agent->cwnd_packets;
    agent->prior_ssthresh_packets = agent->ssthresh_packets;
    agent->ssthresh_packets = dcgym_most(agent->cwnd_packets / 2, DCGYM_LEAST_CWND);
    agent->acked_packets = 0;
}

/* A fast recovery begins. A window that the agent holds is the agent's affair. */
DCGYM_INLINE void dcgym_agent_on_loss(struct dcgym_agent *agent, __u64 now_us, __u64 lease_us) {
    dcgym_agent_expire(agent, now_us, lease_us);
    if (!dcgym_agent_is_reno(agent))
        return;
    dcgym_agent_halve(agent);
    agent->cwnd_packets = agent->ssthresh_packets;
}

/* RFC 5681, section 3.1: one packet; the threshold falls with the first of several timeouts. */
DCGYM_INLINE void dcgym_agent_on_timeout(struct dcgym_agent *agent, __u64 now_us, __u64 lease_us,
                                         __u32 is_first) {
    dcgym_agent_expire(agent, now_us, lease_us);
    if (!dcgym_agent_is_reno(agent))
        return;
    if (is_first)
        dcgym_agent_halve(agent);
    agent->cwnd_packets = 1;
}

DCGYM_INLINE void dcgym_agent_undo(struct dcgym_agent *agent) {
    if (!dcgym_agent_is_reno(agent) || !agent->prior_cwnd_packets)
        return;
    agent->cwnd_packets = dcgym_most(agent->cwnd_packets, agent->prior_cwnd_packets);
    agent->ssthresh_packets = dcgym_most(agent->ssthresh_packets, agent->prior_ssthresh_packets);
}

DCGYM_INLINE struct dcgym_cc_decision dcgym_agent_decide(struct dcgym_agent *agent, __u32 mss_bytes,
                                                         __u32 srtt_us) {
    struct dcgym_cc_decision decision = {};

    if (agent->flags & DCGYM_AGENT_RATE) {
        __u64 window = agent->pacing_bytes_per_s * DCGYM_AGENT_RATE_WINDOW / 1000 * srtt_us / 1000 /
                       dcgym_most(mss_bytes, 1);

        decision.pacing_bytes_per_s = agent->pacing_bytes_per_s;
        if (window > DCGYM_AGENT_MOST_CWND)
            window = DCGYM_AGENT_MOST_CWND;
        if (!(agent->flags & DCGYM_AGENT_WINDOW))
            agent->cwnd_packets = dcgym_most((__u32)window, 2 * DCGYM_LEAST_CWND);
    }
    decision.cwnd_packets = agent->cwnd_packets;
    return decision;
}

#endif
