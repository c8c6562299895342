"""What a twin and the emulation are compared in, and how far apart they may be."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ACCELERATORS", "BALANCING", "COUNTS", "NETWORK", "TRACE", "WITHIN", "Quantity"]

WITHIN, COUNTS = 0.05, 0.10
"""Relative error that is allowed of a metric, and of a count of packets."""

TRACE = "queue_rmse_bytes"
"""Name of the distance between two traces of the fullest queue; no run records it by itself."""

FRAME_BYTES = 1514.0
# The idle emulation's round trip over two switches.
IDLE_RTT_US = 30.0
# Sockets of the traffic generator open up to this long after their time.
OPENING_US = 120.0
# One step of the reward's second decimal, which is what tables show of it.
REWARD_STEP = 0.01


@dataclass(frozen=True)
class Quantity:
    """A metric of a run, as tables show it, and what counts as equal.

    Attributes:
        metric: Name in the record's metrics, or `TRACE`.
        title: Name for tables.
        short: Name for narrow columns, on two lines.
        unit: Unit for tables; "" for a plain number.
        divisor: What one unit of the table is in the metric's own.
        within: Relative error that is allowed.
        least: Difference that is none, in the metric's own unit: below what a recorder resolves.
        meaning: One sentence about it.
    """

    metric: str
    title: str
    short: str
    unit: str = ""
    divisor: float = 1.0
    within: float = WITHIN
    least: float = 0.0
    meaning: str = ""


NETWORK = (
    Quantity(
        "goodput_bps", "goodput", "good-\nput", "Mbit/s", 1e6, meaning="What all hosts received."
    ),
    Quantity(
        "queue_bytes_mean",
        "queue",
        "queue\nmean",
        "KB",
        1e3,
        least=FRAME_BYTES,
        meaning="Backlog of the fullest switch port at the end of a step, mean over the steps.",
    ),
    Quantity(
        "queue_bytes_p99",
        "queue p99",
        "queue\np99",
        "KB",
        1e3,
        least=FRAME_BYTES,
        meaning="The same backlog: 1 % of the steps end with more.",
    ),
    Quantity(
        TRACE,
        "trace RMSE",
        "trace\nRMSE",
        "KB",
        1e3,
        least=FRAME_BYTES,
        meaning="Root mean square of the difference of two traces of that backlog, after the shift "
        "that correlates best. Under emulation: of its runs among each other, where all of them "
        "ask the same. The error is over the emulation's mean backlog.",
    ),
    Quantity(
        "rtt_us_p50",
        "RTT p50",
        "RTT\np50",
        "ms",
        1e3,
        least=IDLE_RTT_US,
        meaning="Median over the steps of the senders' smoothed round trips.",
    ),
    Quantity(
        "drops", "drops", "drops", within=COUNTS, least=1.0, meaning="Packets dropped by switches."
    ),
    Quantity(
        "marks", "marks", "marks", within=COUNTS, least=1.0, meaning="Packets marked by switches."
    ),
    Quantity(
        "fct_us_p50",
        "FCT p50",
        "FCT\np50",
        "ms",
        1e3,
        least=OPENING_US,
        meaning="Median completion time of flows with a size.",
    ),
    Quantity(
        "fct_us_p99",
        "FCT p99",
        "FCT\np99",
        "ms",
        1e3,
        least=OPENING_US,
        meaning="Completion time that 1 % of them exceed; of 100 flows or more.",
    ),
    Quantity(
        "slowdown_mean",
        "slowdown",
        "slow-\ndown",
        meaning="Completion time over that on an empty network, mean over the flows.",
    ),
    Quantity("reward_mean", "return", "re-\nturn", least=REWARD_STEP, meaning="Return per step."),
)
"""Quantities of a network."""

BALANCING = (
    Quantity("fct_us_mean", "FCT mean", "FCT\nmean", "ms", 1e3, meaning="Mean completion time."),
    Quantity("fct_us_p50", "FCT p50", "FCT\np50", "ms", 1e3, meaning="Median completion time."),
    Quantity("fct_us_p90", "FCT p90", "FCT\np90", "ms", 1e3, meaning="Its 90th percentile."),
    Quantity("fct_us_p95", "FCT p95", "FCT\np95", "ms", 1e3, meaning="Its 95th percentile."),
    Quantity("fct_us_p99", "FCT p99", "FCT\np99", "ms", 1e3, meaning="Its 99th percentile."),
    Quantity("utilisation", "utilisation", "busy", meaning="Part of the workers that were busy."),
    Quantity(
        "share_strong",
        "strong share",
        "strong\nshare",
        meaning="Part of the flows on the strong servers.",
    ),
)
"""Quantities of a pool, which both backends measure in the same way."""

ACCELERATORS = (
    Quantity("latency_ms_mean", "latency mean", "mean", "ms", least=1.0, meaning="Mean latency."),
    Quantity("latency_ms_p50", "latency p50", "p50", "ms", least=1.0, meaning="Its median."),
    Quantity("latency_ms_p99", "latency p99", "p99", "ms", least=1.0, meaning="1 % take longer."),
    Quantity(
        "throughput_per_s", "throughput", "through-\nput", "1/s", meaning="Requests answered."
    ),
    Quantity(
        "accelerator_share",
        "accelerators",
        "accel-\nerators",
        least=0.005,
        meaning="Share of the requests that accelerators got.",
    ),
    Quantity(
        "processor_utilisation",
        "processors",
        "pro-\ncessors",
        least=0.005,
        meaning="Part of the processors' workers that were busy.",
    ),
)
"""Quantities of a pool of servers with accelerators."""
