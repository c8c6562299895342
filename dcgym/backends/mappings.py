"""What local mappings, and residual ones that a backend places, lead to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dcgym.backends.placement import Placement
from dcgym.tasks.placement.links import ideal_link_bps
from dcgym.tasks.placement.mappings import FloatArray, LocalMappings, Residual
from dcgym.tasks.placement.view import AssignmentRule, Evaluation, Failures, Places
from dcgym.traffic.vips import VipTable

__all__ = ["LocalityOutcome", "evaluate_mappings", "whole_table"]


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


def evaluate_mappings(
    state: LocalMappings, model: Placement, env: int = 0, rule: AssignmentRule | None = None
) -> LocalityOutcome:
    """Place residual mappings, and return what all mappings lead to.

    Args:
        state: DIPs and local mappings.
        model: Where residual mappings are placed.
        env: Number of the copy there.
        rule: How they are placed; Duet's greedy algorithm if None.
    """
    left: Residual = state.residual()
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
