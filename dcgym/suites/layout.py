"""Which metrics tables and reports show, for each family of environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["LAYOUTS", "Column", "Layout", "layout_of", "scenarios_of"]

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Column:
    """A metric and how it is shown.

    Attributes:
        metric: Name in the record's metrics, or of a column of the steps.
        title: Title with the unit.
        divisor: What one unit of the title is in the metric's own.
        decimals: Decimals in the terminal's table.
    """

    metric: str
    title: str
    divisor: float = 1.0
    decimals: int = 3

    @property
    def heading(self) -> str:
        """The title on two lines, the unit below."""
        return self.title.replace(", ", "\n")


@dataclass(frozen=True)
class Layout:
    """What a table shows of the runs, and a report of one run's steps.

    Attributes:
        columns: Metrics of a run.
        series: Columns of the steps, over time.
        means: Name of a series and the prefix of the columns whose mean it is.
    """

    columns: tuple[Column, ...]
    series: tuple[Column, ...]
    means: Mapping[str, str]


CONGESTION = Layout(
    columns=(
        Column("reward_mean", "reward"),
        Column("goodput_bps", "goodput, Mbit/s", 1e6, 2),
        Column("queue_bytes_mean", "queue mean, KB", 1e3, 1),
        Column("queue_bytes_p99", "queue p99, KB", 1e3, 1),
        Column("rtt_us_p50", "RTT p50, ms", 1e3, 1),
        Column("rtt_us_p99", "RTT p99, ms", 1e3, 1),
        Column("drops", "drops", 1.0, 0),
        Column("jain", "Jain"),
    ),
    series=(
        Column("goodput_bps", "goodput, Mbit/s", 1e6),
        Column("queue_bytes", "longest queue, KB", 1e3),
        Column("rate_share", "mean rate share of the hosts"),
    ),
    means={"rate_share": "rate_share_"},
)

PATHS = Layout(
    columns=(
        Column("reward_mean", "reward"),
        Column("goodput_bps", "goodput, Mbit/s", 1e6, 2),
        Column("fct_us_p50", "FCT p50, ms", 1e3, 1),
        Column("fct_us_p99", "FCT p99, ms", 1e3, 1),
        Column("uplink_load_max", "busiest uplink"),
        Column("uplink_imbalance", "max/mean load"),
        Column("uplink_jain", "Jain of uplinks"),
        Column("queue_bytes_mean", "queue mean, KB", 1e3, 1),
        Column("drops", "drops", 1.0, 0),
    ),
    series=(
        Column("goodput_bps", "goodput, Mbit/s", 1e6),
        Column("queue_bytes", "longest queue, KB", 1e3),
        Column("uplink_jain", "Jain's index of the uplinks"),
    ),
    means={},
)

BALANCING = Layout(
    columns=(
        Column("reward_mean", "reward", 1.0, 2),
        Column("fct_us_mean", "FCT mean, s", 1e6),
        Column("fct_us_p50", "FCT p50, s", 1e6, 2),
        Column("fct_us_p90", "FCT p90, s", 1e6, 2),
        Column("fct_us_p99", "FCT p99, s", 1e6, 2),
        Column("regret", "regret, s", 1e6),
        Column("jain", "Jain"),
        Column("overprovision", "max/mean"),
        Column("rejected", "rejected", 1.0, 0),
        Column("share_strong", "strong share"),
    ),
    series=(
        Column("queue", "flows at all servers"),
        Column("fct_us_mean", "recent completion time, s", 1e6),
        Column("weight_strong", "part of the weights on the strong servers"),
    ),
    means={},
)

LAYOUTS: Mapping[str, Layout] = {
    "dcgym/CongestionControl-v0": CONGESTION,
    "dcgym/PathBalancing-v0": PATHS,
    "dcgym/Joint-v0": PATHS,
    "dcgym/LoadBalancing-v0": BALANCING,
    "dcgym/CentralLoadBalancing-v0": BALANCING,
}


def layout_of(records: Records) -> Layout:
    """Return the layout of the records' environment, with the columns that they have."""
    layout = LAYOUTS[records[0]["env"]]
    known = records[0]["metrics"]
    columns = tuple(column for column in layout.columns if column.metric in known)
    return Layout(columns, layout.series, layout.means)


def scenarios_of(records: Records) -> dict[str, list[Mapping[str, Any]]]:
    """Return the records of each scenario, in the order of their first appearance."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(str(record.get("scenario", "")), []).append(record)
    return found
