"""What runs on VIPs record: where the bytes are, loads of links, muxes, failures."""

from __future__ import annotations

import numpy as np

from dcgym.backends.placement import Placement
from dcgym.envs.bindings.placement import PlacementEpisode
from dcgym.suites.recorders.base import Columns, Outcome, Recorder, episode_of, split_columns
from dcgym.suites.statistics import mean_of
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.tasks.placement.links import ideal_link_bps
from dcgym.tasks.placement.muxes import median_rtt_us, muxes_needed
from dcgym.tasks.placement.view import Evaluation, Failures
from dcgym.traffic.vips import VipTable

__all__ = ["PlacementRecorder", "failover_bps", "placement_metrics"]

DRAWS, SWITCHES = 10, 3
"""Failures of three random switches that an evaluation has (Duet, section 8.5)."""

_SEED = 17


def failures_of(centre: DataCentre) -> tuple[list[Failures], list[Failures]]:
    """Return the failures that an evaluation has: of each container, and of random switches."""
    generator = np.random.default_rng(_SEED)
    containers = [Failures.container(centre, number) for number in range(centre.containers)]
    count = min(SWITCHES, centre.n_switches)
    return containers, [Failures.some_switches(centre, count, generator) for _ in range(DRAWS)]


def failover_bps(model: Placement, env: int) -> float:
    """Return the most that the muxes carry while a container or three switches are down.

    Args:
        model: The data centre.
        env: Number of the copy.
    """
    containers, switches = failures_of(model.data_centre)
    found = [model.evaluate(env, one, is_routed=False) for one in (*containers, *switches)]
    return max(one.mux_bps for one in found)


def placement_metrics(
    model: Placement, env: int, table: VipTable, transit_bps: float = 0.0
) -> dict[str, float]:
    """Return the metrics of a placement that is complete.

    Args:
        model: The data centre.
        env: Number of the copy.
        table: Its VIPs.
        transit_bps: Traffic of VIPs that pass over the muxes as they move.
    """
    centre = model.data_centre
    now = model.evaluate(env, Failures())
    muxes = muxes_needed(now.mux_bps, failover_bps(model, env), transit_bps, centre.mux_bps)
    load = now.mux_bps / (muxes * centre.mux_bps) if muxes else 0.0
    return {
        "switch_share": now.switch_share,
        "mlu": now.link_max,
        "hops": now.hops,
        "core_detour": now.core_detour,
        "container_detour": now.container_detour,
        "muxes": float(muxes),
        "latency_us_p50": median_rtt_us(now.switch_bps, now.mux_bps, load),
        **_rises(model, env, now),
        **_bounds(centre, table),
    }


class PlacementRecorder(Recorder):
    """Records a run of VIP placement."""

    def finish(self, columns: Columns) -> Outcome:
        """Return what the placement leads to, failures included.

        Args:
            columns: The steps, one array a quantity.
        """
        one = episode_of(self.system, PlacementEpisode)
        metrics = {
            "reward_mean": mean_of(columns["reward"]),
            "return": float(columns["reward"].sum()),
            **placement_metrics(one.model, 0, one.table),
            "placed": float(columns["placed"][-1]),
            "rejected": float(columns["rejected"][-1]),
        }
        return Outcome(
            metrics, split_columns(self.system.flow_records(0)), self.session.fidelity(0)
        )


def _rises(model: Placement, env: int, now: Evaluation) -> dict[str, float]:
    """Return by how much failures raise the MLU: the median over containers, and over draws."""
    containers, switches = failures_of(model.data_centre)
    some = containers[:: max(1, len(containers) // DRAWS)]
    return {
        f"mlu_rise_{name}": float(
            np.median([model.evaluate(env, one).link_max - now.link_max for one in group])
        )
        for name, group in (("container", some), ("switches", switches))
    }


def _bounds(centre: DataCentre, table: VipTable) -> dict[str, float]:
    """Return MLU and hops where no byte makes a detour (Rubik's Direct and Closest)."""
    made, total = {}, float(table.bps.sum())
    for name, is_closest in (("direct", False), ("closest", True)):
        loads = ideal_link_bps(centre, table, is_closest)
        made[f"mlu_{name}"] = float((loads / centre.link_bps).max())
        made[f"hops_{name}"] = float(loads.sum()) / total if total else np.nan
    return made
