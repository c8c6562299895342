"""Rubik at the level of flows: local mappings level by level, then residual mappings by least MRU.

R. Gandhi, Y. C. Hu, C.-K. Koh, H. Liu, M. Zhang, "Rubik", USENIX ATC 2015, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.backends.mappings import LocalityOutcome, evaluate_mappings
from dcgym.backends.simulation.placement import FlowLevelModel
from dcgym.config import check_in
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.tasks.placement.locality import LevelReport, SolverLimits, localise
from dcgym.tasks.placement.mappings import DipLimits, LocalMappings
from dcgym.tasks.placement.view import AssignmentRule
from dcgym.traffic.vips import ServiceGraph

__all__ = ["SCHEMES", "RubikPlan", "plan_rubik"]

SCHEMES = ("duet", "rubik-lo", "rubik")
"""No local mapping; local mappings of DIPs that stay; local mappings, and DIPs that move."""


@dataclass(frozen=True)
class RubikPlan:
    """A plan, and what it leads to.

    Attributes:
        mappings: DIPs and local mappings.
        levels: What the solver did with each level of the graph.
        outcome: What it leads to.
    """

    mappings: LocalMappings
    levels: tuple[LevelReport, ...]
    outcome: LocalityOutcome


def plan_rubik(
    data_centre: DataCentre,
    services: ServiceGraph,
    scheme: str = "rubik",
    dips: DipLimits | None = None,
    solver: SolverLimits | None = None,
    rule: AssignmentRule | None = None,
) -> RubikPlan:
    """Place local mappings and DIPs level by level, then the residual mappings.

    Args:
        data_centre: The data centre.
        services: VIPs and their calls.
        scheme: One of `SCHEMES`.
        dips: What DIPs may carry and how many may move.
        solver: When the solver may stop.
        rule: How residual mappings are placed; Duet's greedy algorithm if None.

    Raises:
        ConfigError: VIPs are in racks that the data centre does not have, or a name is unknown.
        FeatureNotSupported: The native module was not built.
    """
    check_in("scheme", scheme, SCHEMES)
    state = LocalMappings(data_centre, services, dips or DipLimits())
    reports = []
    for vips in services.levels() if scheme != "duet" else ():
        limits = solver or SolverLimits()
        reports.append(localise(state, vips.tolist(), limits, has_moves=scheme == "rubik"))
    outcome = evaluate_mappings(state, FlowLevelModel(data_centre), rule=rule)
    return RubikPlan(state, tuple(reports), outcome)
