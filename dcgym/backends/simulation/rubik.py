"""Rubik at the level of flows: local mappings level by level, then residual mappings by least MRU.

R. Gandhi, Y. C. Hu, C.-K. Koh, H. Liu, M. Zhang, "Rubik", USENIX ATC 2015, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dcgym.backends.placement import Placement
from dcgym.backends.simulation.placement import FlowLevelModel, ideal_link_bps
from dcgym.config import check_in
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.tasks.placement.locality import LevelReport, SolverLimits, localise
from dcgym.tasks.placement.mappings import DipLimits, FloatArray, LocalMappings, Residual
from dcgym.tasks.placement.view import AssignmentRule, Evaluation, Failures, Places
from dcgym.traffic.vips import ServiceGraph, VipTable

__all__ = [
    "SCHEMES",
    "LocalityOutcome",
    "RubikPlan",
    "evaluate_mappings",
    "plan_rubik",
    "whole_table",
]

SCHEMES = ("duet", "rubik-lo", "rubik")
"""No local mapping; local mappings of DIPs that stay; local mappings, and DIPs that move."""


@dataclass(frozen=True)
class LocalityOutcome:
    """What local and residual mappings lead to.

    Attributes:
        total_bps: Traffic of all VIPs.
        local_bps: What local mappings serve: it crosses no link.
        residual: What residual mappings lead to.
        places: Switch of each residual mapping, of the VIPs `Residual.numbers`.
        moved: DIPs that moved.
        n_dips: DIPs of all VIPs.
        dip_loads: Utilisation of each VIP's most loaded mapping, (V,).
        bounds: Largest link utilisation and mean hops without detours, DIPs where they are now:
            "mlu_direct" and "hops_direct" with any DIP, "mlu_closest" and "hops_closest" with the
            closest ones.
    """

    total_bps: float
    local_bps: float
    residual: Evaluation
    places: Places
    moved: int
    n_dips: int
    dip_loads: FloatArray = field(repr=False)
    bounds: dict[str, float]

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers by name; shares are of the traffic of all VIPs, detours of direct paths."""
        total, found = self.total_bps, self.residual
        on_switches = self.local_bps + found.switch_bps
        direct = found.direct_core_bps + found.direct_container_bps
        return {
            "local_share": self.local_bps / total if total else 0.0,
            "switch_share": on_switches / total if total else 0.0,
            "mlu": found.link_max,
            "hops": (found.core_bps + found.container_bps) / total if total else 0.0,
            "core_bps": found.core_bps,
            "container_bps": found.container_bps,
            "detour_bps": found.core_bps + found.container_bps - direct,
            "moved_share": self.moved / self.n_dips,
            "dip_load_max": float(self.dip_loads.max()),
            "dip_load_p80": float(np.quantile(self.dip_loads, 0.8)),
            **self.bounds,
        }


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
    return RubikPlan(state, tuple(reports), evaluate_mappings(state, rule))


def evaluate_mappings(
    state: LocalMappings,
    rule: AssignmentRule | None = None,
    model: Placement | None = None,
    env: int = 0,
) -> LocalityOutcome:
    """Place residual mappings, and return what all mappings lead to.

    Args:
        state: DIPs and local mappings.
        rule: How residual mappings are placed; Duet's greedy algorithm if None.
        model: Where; a flow-level model of its own if None.
        env: Number of the copy there.
    """
    left: Residual = state.residual()
    model = model or FlowLevelModel(state.data_centre)
    model.reset(env, left.table, left.used)
    model.assign(env, rule or AssignmentRule())
    return LocalityOutcome(
        float(state.services.bps.sum()),
        left.local_bps,
        model.evaluate(env, Failures()),
        model.places(env),
        state.moved,
        int(state.n_dips.sum()),
        state.dip_loads(),
        _bounds(state),
    )


def whole_table(state: LocalMappings) -> VipTable:
    """Return all traffic of all VIPs with DIPs where they are now, local mappings left out.

    Args:
        state: DIPs and local mappings.
    """
    sources = []
    for vip in range(len(state.dips)):
        demand = state.demand(vip)
        racks = np.flatnonzero(demand)
        sources.append(dict(zip(racks.tolist(), demand[racks].tolist(), strict=True)))
    return VipTable.of(sources, state.dips, state.services.table.internet_bps.tolist())


def _bounds(state: LocalMappings) -> dict[str, float]:
    table, made = whole_table(state), {}
    total = float(table.bps.sum())
    for name, is_closest in (("direct", False), ("closest", True)):
        loads = ideal_link_bps(state.data_centre, table, is_closest)
        made[f"mlu_{name}"] = float((loads / state.data_centre.link_bps).max())
        made[f"hops_{name}"] = float(loads.sum()) / total if total else 0.0
    return made
