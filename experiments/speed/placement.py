"""Placement of VIPs at the level of flows: steps, greedy assignments, Rubik's program."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from rich.table import Table

from dcgym.backends.simulation.placement import FlowLevelModel
from dcgym.backends.simulation.rubik import plan_rubik
from dcgym.cli.console import table_console
from dcgym.envs.registration import register_envs
from dcgym.tasks.placement.data_centre import DATA_CENTRES
from dcgym.tasks.placement.view import AssignmentRule, Failures
from dcgym.traffic.vips import SyntheticVips, draw_services

__all__ = ["measure", "show"]

Row = Mapping[str, Any]

STEPS, ROUNDS = 1000, 5
SIZES = {"fat-tree-8": (400, 0.4e12), "duet": (30_000, 10e12)}


def measure() -> dict[str, list[Row]]:
    """Measure steps of the environments, and whole assignments."""
    return {
        "steps": [
            _steps("VipPlacement-v0"),
            _steps("VipPlacement-v0", data_centre="duet", vips={"vips": 2000}),
            _steps("DipPlacement-v0"),
            _steps("VipMigration-v0"),
        ],
        "assignments": [_assignment(name) for name in SIZES],
        "rubik": [_plan("fat-tree-8"), _plan("fat-tree-16")],
    }


def show(figures: Mapping[str, Sequence[Row]]) -> None:
    """Print what `measure` returned."""
    for title, rows in figures.items():
        table = Table(title=f"Placement of VIPs: {title}", title_justify="left")
        for name in rows[0]:
            table.add_column(name)
        for row in rows:
            values = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
            table.add_row(*values)
        table_console().print(table)


def _steps(name: str, **arguments: Any) -> Row:
    """Time steps with random feasible actions and no infos; episodes begin off the clock."""
    register_envs()
    env: Any = gym.make(f"dcgym/{name}", info="none", **arguments).unwrapped
    generator, found = np.random.default_rng(0), []
    env.reset(seed=0)
    for _ in range(ROUNDS):
        spent = 0.0
        for _ in range(STEPS // ROUNDS):
            action = int(generator.choice(np.flatnonzero(env.action_masks())))
            started = time.perf_counter()
            is_over = env.step(action)[2]
            spent += time.perf_counter() - started
            if is_over:
                env.reset()
        found.append(spent / (STEPS // ROUNDS) * 1e6)
    env.close()
    centre = str(arguments.get("data_centre", "fat-tree-8"))
    return {"environment": name, "data_centre": centre, "step_us": float(np.median(found))}


def _assignment(name: str) -> Row:
    """Time Duet's greedy assignment of all VIPs, and the evaluation of what it leads to."""
    centre, (vips, total_bps) = DATA_CENTRES[name], SIZES[name]
    drawn = SyntheticVips(vips, centre.n_racks, total_bps, centre.n_servers)
    model = FlowLevelModel(centre)
    model.reset(0, drawn.draw(0)[0])
    started = time.perf_counter()
    model.assign(0, AssignmentRule())
    assigned = time.perf_counter()
    model.evaluate(0, Failures())
    evaluated = time.perf_counter()
    return {
        "data_centre": name,
        "vips": vips,
        "assign_s": assigned - started,
        "evaluate_s": evaluated - assigned,
    }


def _plan(name: str) -> Row:
    """Time Rubik's program and the residual assignment, 1 % of the DIPs moving."""
    centre = DATA_CENTRES[name]
    vips, total_bps = 12 * centre.n_racks, 12e9 * centre.n_racks
    drawn = SyntheticVips(vips, centre.n_racks, total_bps, centre.n_servers)
    services = draw_services(drawn.draw(0)[0], 0)
    started = time.perf_counter()
    plan = plan_rubik(centre, services)
    return {
        "data_centre": name,
        "vips": vips,
        "pairs": sum(level.pairs for level in plan.levels),
        "plan_s": time.perf_counter() - started,
        "gap": max(level.gap for level in plan.levels),
    }
