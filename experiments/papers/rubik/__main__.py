"""How large Rubik's program can be: ``python -m experiments.papers.rubik``, up to half an hour.

VIPs and calls are synthetic (`dcgym.traffic.vips`). ``--pairs`` bounds the binaries of a level:
only the pairs of a rack and a VIP of most traffic may become local mappings then.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator

from rich.table import Table

from dcgym.backends.simulation.rubik import SCHEMES, plan_rubik
from dcgym.cli.console import table_console
from dcgym.json_text import json_text
from dcgym.tasks.placement.data_centre import make_data_centre
from dcgym.tasks.placement.locality import SolverLimits
from dcgym.tasks.placement.mappings import DipLimits
from dcgym.traffic.vips import SyntheticVips, draw_services

__all__ = ["main", "measure"]

DAY = 0.24  # 1 % of the DIPs an hour, over a day


def measure(
    name: str, vips: int, total_bps: float, solver: SolverLimits, seed: int
) -> Iterator[dict[str, object]]:
    """Yield what each scheme leads to, and how long it takes.

    Args:
        name: Name of the data centre.
        vips: Number of VIPs.
        total_bps: Their traffic.
        solver: When the solver may stop.
        seed: Seed of VIPs and calls.
    """
    centre = make_data_centre(name)
    drawn = SyntheticVips(vips, centre.n_racks, total_bps, centre.n_servers)
    services = draw_services(drawn.draw(seed)[0], seed)
    for scheme in SCHEMES:
        started = time.perf_counter()
        plan = plan_rubik(centre, services, scheme, DipLimits(moves=DAY), solver)
        found = plan.outcome.metrics
        yield {
            "scheme": scheme,
            "pairs": sum(level.pairs for level in plan.levels),
            "status": ", ".join(level.status for level in plan.levels),
            "gap": max((level.gap for level in plan.levels), default=0.0),
            "plan_s": time.perf_counter() - started,
            "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
            **{key: found[key] for key in ("local_share", "switch_share", "mlu", "hops")},
            **{key: found[key] / 1e12 for key in ("core_bps", "container_bps", "detour_bps")},
            "moved_share": found["moved_share"],
        }


def main() -> None:
    """Measure one size and print it."""
    parser = argparse.ArgumentParser(prog="python -m experiments.papers.rubik", description=__doc__)
    parser.add_argument("--data-centre", default="fat-tree-16")
    parser.add_argument("--vips", type=int, default=3000)
    parser.add_argument("--total-tbps", type=float, default=1.2)
    parser.add_argument("--gap", type=float, default=0.01)
    parser.add_argument("--time-limit", type=float, default=600.0)
    parser.add_argument("--pairs", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print a list of records alone")
    given = parser.parse_args()
    solver = SolverLimits(given.gap, given.time_limit, given.pairs)
    rows = list(measure(given.data_centre, given.vips, given.total_tbps * 1e12, solver, given.seed))
    if given.json:
        print(json_text(rows, indent=1))
        return
    table = Table(title=f"{given.data_centre}, {given.vips} VIPs, {given.total_tbps} Tbit/s")
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    table_console().print(table)


if __name__ == "__main__":
    main()
