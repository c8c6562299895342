"""Duet's numbers at full size: ``python -m experiments.papers.duet``, some minutes on one core.

Assignments at four loads (figures 16 and 18 of the SIGCOMM paper), failures (figure 19), and 18
epochs of migration (figure 20). The trace is synthetic (`dcgym.traffic.vips.SyntheticVips`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from rich.table import Table

from dcgym.backends.simulation.placement import FlowLevelModel
from dcgym.cli.console import table_console
from dcgym.json_text import json_text
from dcgym.suites.recorders.placement import failover_bps, placement_metrics
from dcgym.tasks.placement.data_centre import DataCentre, make_data_centre
from dcgym.tasks.placement.muxes import muxes_needed
from dcgym.tasks.placement.view import AssignmentRule, Failures
from dcgym.traffic.vips import SyntheticVips, VipTable

__all__ = ["main", "measure_assignments", "measure_migrations"]

RULES = {
    "duet": AssignmentRule(),
    "duet-skip": AssignmentRule(stops=False),
    "first-feasible": AssignmentRule("first-feasible", stops=False),
}
LOADS = (0.125, 0.25, 0.5, 1.0)
EPOCHS = 18
MIGRATIONS = {
    "one-time": AssignmentRule("none", stops=False),
    "sticky": AssignmentRule(margin=0.05),
    "non-sticky": AssignmentRule(),
}

Row = dict[str, object]


def measure_assignments(centre: DataCentre, table: VipTable, seed: int = 0) -> Iterator[Row]:
    """Yield the metrics of each rule at each load.

    Args:
        centre: The data centre.
        table: VIPs at the highest load.
        seed: Seed of random orders.
    """
    model = FlowLevelModel(centre)
    for load in LOADS:
        scaled = table.scaled(load)
        software = muxes_needed(float(scaled.bps.sum()), 0.0, 0.0, centre.mux_bps)
        for name, rule in RULES.items():
            model.reset(0, scaled)
            started = time.perf_counter()
            model.assign(0, replace(rule, seed=seed))
            assign_s = time.perf_counter() - started
            started = time.perf_counter()
            model.evaluate(0, Failures())
            evaluate_s = time.perf_counter() - started
            found = placement_metrics(model, 0, scaled)
            yield {
                "tbps": float(scaled.bps.sum()) / 1e12,
                "rule": name,
                "placed": model.usage(0).placed,
                **found,
                "muxes_of_software": software,
                "assign_s": assign_s,
                "evaluate_s": evaluate_s,
            }


def measure_migrations(centre: DataCentre, tables: list[VipTable], seed: int = 0) -> Iterator[Row]:
    """Yield the means over epochs of each way to move VIPs.

    VIPs that move pass over the muxes: first all leave their switch, then all go to the new one,
    so that no table ever holds both.

    Args:
        centre: The data centre.
        tables: VIPs of each epoch.
        seed: Seed of random orders.
    """
    model = FlowLevelModel(centre)
    for name, rule in MIGRATIONS.items():
        model.reset(0, tables[0])
        model.assign(0, AssignmentRule(seed=seed))
        places = model.places(0)
        shares, moved, muxes = [], [], []
        for number, table in enumerate(tables[1:], start=1):
            model.reset(0, table)
            model.assign(0, replace(rule, seed=seed + number), places)
            after, total_bps = model.places(0), float(table.bps.sum())
            # In transit are those that were on a switch and are on another one or on the muxes.
            transit_bps = float(table.bps[(places != after) & (places >= 0)].sum())
            now = model.evaluate(0, Failures(), is_routed=False)
            shares.append(now.switch_share)
            moved.append(transit_bps / total_bps)
            unplaced_bps, failed_bps = now.mux_bps, failover_bps(model, 0)
            muxes.append(muxes_needed(unplaced_bps, failed_bps, transit_bps, centre.mux_bps))
            # One-time looks at the first assignment only.
            places = places if rule.choice == "none" else after
        yield {
            "rule": name,
            "switch_share": float(np.mean(shares)),
            "switch_share_min": float(np.min(shares)),
            "moved": float(np.mean(moved)),
            "moved_max": float(np.max(moved)),
            "muxes": float(np.mean(muxes)),
        }


def print_rows(title: str, rows: list[Row]) -> None:
    """Print rows as a table."""
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    table_console().print(table)


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m experiments.papers.duet", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print a list of records alone")
    parser.add_argument("--part", choices=("assignments", "migrations"), default=None)
    given = parser.parse_args()
    centre = make_data_centre("duet")
    # The migration study has 6.2 to 7.1 Tbit/s.
    found: Mapping[str, list[Row]] = {
        part: list(rows)
        for part, rows in (
            (
                "assignments",
                measure_assignments(centre, SyntheticVips().draw(given.seed)[0], given.seed),
            ),
            (
                "migrations",
                measure_migrations(
                    centre,
                    SyntheticVips(total_bps=6.65e12).draw(given.seed, EPOCHS),
                    given.seed,
                ),
            ),
        )
        if given.part in (None, part)
    }
    if given.json:
        print(json_text(found, indent=1))
    else:
        for part, rows in found.items():
            print_rows(part, rows)


if __name__ == "__main__":
    main()
