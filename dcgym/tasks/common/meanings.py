"""What the metrics mean in one sentence each, and which end of them is the better one."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["MEANINGS"]

HIGH, LOW, NEITHER = "high", "low", ""
_FCT = "of the completion times of flows, from their planned start to their last byte"
_SLOWDOWN = "of completion times over those on an empty network"

MEANINGS: Mapping[str, tuple[str, str]] = {
    "reward_mean": (HIGH, "Reward of a step, mean over the run."),
    "goodput_bps": (HIGH, "What arrives at the receivers without headers, mean over the run."),
    "queue_bytes_mean": (LOW, "Bytes in the longest queue of a step, mean over the run."),
    "queue_bytes_p99": (LOW, "Bytes in the longest queue, which 99 % of the steps stay below."),
    "rtt_us_p50": (LOW, "Round-trip time that TCP measures, median over the steps."),
    "rtt_us_p99": (LOW, "Round-trip time that TCP measures, 99th percentile over the steps."),
    "drops": (LOW, "Packets that full queues dropped, sum over the run."),
    "marks": (NEITHER, "Packets that switches marked for congestion (ECN), sum over the run."),
    "jain": (
        HIGH,
        "Jain's index: 1 where all receivers get the same rate while they compete (missing where no"
        " two do), or all servers have the same to do.",
    ),
    "utilisation": (HIGH, "Used part of the capacity, mean over the run."),
    "fct_us_mean": (LOW, f"Mean {_FCT}."),
    "censored_share": (
        LOW,
        "Flows that had not ended when the run did: completion times know that they are longer.",
    ),
    "fct_us_p50": (LOW, f"Median {_FCT}."),
    "fct_us_p90": (LOW, f"90th percentile {_FCT}."),
    "fct_us_p95": (LOW, f"95th percentile {_FCT}."),
    "fct_us_p99": (LOW, f"99th percentile {_FCT}; missing where fewer than 100 ended."),
    "regret": (
        LOW,
        "Time that a flow takes longer, on average, than under the better of two oracles.",
    ),
    "reference_fcfs_us": (
        NEITHER,
        "Mean completion time in one pool of all processors, first come, first served.",
    ),
    "reference_srpt_us": (
        NEITHER,
        "Mean completion time in one pool of all processors, the shortest remaining flows first.",
    ),
    "bound_us": (NEITHER, "What no policy's mean completion time of these flows is below."),
    "overprovision": (
        LOW,
        "Remaining work of the fullest server over the mean of all, averaged over time.",
    ),
    "rejected": (LOW, "Requests that full servers refused, sum over the run."),
    "out_of_service": (NEITHER, "Servers that take no new flows, mean over the run."),
    "share_strong": (NEITHER, "Part of the flows that strong servers got."),
    "probes": (NEITHER, "Probes that balancers sent to servers, sum over the run."),
    "idle_messages": (NEITHER, "Messages of servers that had nothing to do, sum over the run."),
    "reports": (NEITHER, "Loads that servers told with their SYN-ACKs, sum over the run."),
    "polls": (
        NEITHER,
        "Servers that balancers polled for a policy that reads it, sum over the run.",
    ),
    "messages_per_flow": (
        NEITHER,
        "Probes, polls, answers, idle messages and reports over all flows.",
    ),
    "pcc_violations": (LOW, "Flows whose packets went to more than one server."),
    "uplink_load_max": (LOW, "Load of the busiest uplink, mean over the run."),
    "uplink_imbalance": (LOW, "Load of the busiest uplink over the mean of all uplinks."),
    "uplink_jain": (HIGH, "Jain's index of the uplinks' loads: 1 where all have the same."),
    "out_of_order_share": (
        LOW,
        "Segments that came before an earlier one, late or lost, over all that arrived.",
    ),
    "spurious_retransmits": (LOW, "Segments sent again that were not lost, sum over the run."),
    "slowdown_mean": (LOW, f"Mean {_SLOWDOWN}."),
    "slowdown_p99": (LOW, f"99th percentile {_SLOWDOWN}."),
    **{
        f"slowdown_{statistic}_{name}": (LOW, f"{title} {_SLOWDOWN}, of flows {sizes}.")
        for name, sizes in (("short", "up to 100 KB"), ("long", "over 1 MB"))
        for statistic, title in (("mean", "Mean"), ("p99", "99th percentile"))
    },
}
"""The better end and the meaning of each metric, by its name."""
