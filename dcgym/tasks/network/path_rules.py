"""Path rules: how flows, flowlets or packets are spread over equal-cost ports."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.native.tables import read_table
from dcgym.registry import Registry
from dcgym.units import parse_duration

__all__ = ["ECMP", "LETFLOW_GAP", "PATH_RULES", "PathChoice", "PathRule", "read_path_rule"]

LETFLOW_GAP = "500us"
"""Gap of LetFlow's flowlets (Vanini et al., NSDI 2017), for links of 10 Gbit/s."""


@dataclass(frozen=True)
class PathRule:
    """A rule of the data plane.

    Attributes:
        switch: What switches do, a name in ``tables/path_rules.h`` of `dcgym/native/include`.
        sender: What senders do, "plb" or "flowbender" of `dcgym/native/include/plb.h`; "" where a
            flow is called the same for its whole life.
        keeps_flows: Whether switches remember where a flow goes.
    """

    switch: str
    sender: str = ""
    keeps_flows: bool = True


PATH_RULES: Registry[PathRule] = Registry("path rules", "path_rule")
"""What the argument ``path_rule`` names. A backend's capabilities say which of them it has."""

for _row in read_table("path_rules"):
    _rule = PathRule(_row["name"], keeps_flows=_row["memory"] == "FLOWS")
    PATH_RULES.add(_row["name"], _rule, _row["description"])
PATH_RULES.add(
    "plb", PathRule("ecmp", "plb"), "flows move after 12 round trips with half of them marked"
)
PATH_RULES.add(
    "flowbender", PathRule("ecmp", "flowbender"), "flows move after one with over 5 % marked"
)


@dataclass(frozen=True)
class PathChoice:
    """A path rule with its numbers.

    Attributes:
        name: A name in `PATH_RULES`.
        rule: The rule.
        flow_entries: Flows that switches remember, all together, the oldest forgotten first: a flow
            keeps its path when weights change. 0: every packet follows the weights.
        flowlet_gap_ns: Idle time after which a flowlet has ended; 0 for never.
    """

    name: str
    rule: PathRule
    flow_entries: int = 0
    flowlet_gap_ns: int = 0


ECMP = PathChoice("ecmp", PATH_RULES["ecmp"])
"""A hash of each flow chooses, anew for each packet."""


def read_path_rule(
    path_rule: str, flow_table: int = 0, flowlet_gap: str | int | float = 0
) -> PathChoice:
    """Return a rule with its numbers.

    Args:
        path_rule: A name in `PATH_RULES`.
        flow_table: Flows that switches remember; rules that choose for each packet need none.
        flowlet_gap: Idle time after which a flowlet of the rule letflow has ended; 0 for its own.

    Raises:
        ConfigError: A value is not allowed, or the rule has no use for it.
    """
    rule = PATH_RULES.find(path_rule)
    entries = check_int("flow_table", flow_table, 0)
    gap_ns = parse_duration(flowlet_gap, "flowlet_gap")
    if rule.switch != "letflow":
        if gap_ns:
            allowed = f"0 with the path rule {path_rule}: flowlets are of letflow"
            raise ConfigError("flowlet_gap", flowlet_gap, allowed)
        return PathChoice(path_rule, rule, entries if rule.keeps_flows else 0)
    if not entries:
        raise ConfigError("flow_table", flow_table, "1 or more with the path rule letflow")
    return PathChoice(path_rule, rule, entries, gap_ns or parse_duration(LETFLOW_GAP))
