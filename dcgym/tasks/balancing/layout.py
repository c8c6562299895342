"""What tables and reports show of runs on a server pool."""

from __future__ import annotations

from dcgym.tasks.common.layout import CENSORED, Column, Layout

__all__ = ["BALANCING_LAYOUT"]

BALANCING_LAYOUT = Layout(
    columns=(
        Column("reward_mean", "reward", 1.0, 2, low=None),
        Column("fct_us_mean", "FCT mean, s", 1e6),
        Column("fct_us_p50", "FCT p50, s", 1e6, 2),
        Column("fct_us_p90", "FCT p90, s", 1e6, 2),
        Column("fct_us_p99", "FCT p99, s", 1e6, 2),
        CENSORED,
        Column("regret", "regret, s", 1e6, low=None),
        Column("reference_srpt_us", "SRPT pool, s", 1e6, is_optional=True),
        Column("bound_us", "bound, s", 1e6),
        Column("jain", "Jain", high=1.0),
        Column("overprovision", "max/mean", low=1.0),
        Column("rejected", "rejected", 1.0, 0),
        Column("out_of_service", "servers out of service", 1.0, 2, is_optional=True),
        Column("share_strong", "strong share", high=1.0),
        Column("probes", "probes", 1.0, 0, is_optional=True),
        Column("idle_messages", "idle messages", 1.0, 0, is_optional=True),
        Column("reports", "reports", 1.0, 0, is_optional=True),
        Column("polls", "polls", 1.0, 0, is_optional=True),
        Column("messages_per_flow", "messages, a flow", 1.0, 2, is_optional=True),
    ),
    series=(
        Column("queue", "flows at all servers"),
        Column("ended_fct_us_mean", "completion time of the flows that ended, s", 1e6),
        Column("weight_strong", "part of the weights on the strong servers"),
    ),
)
