"""Is Charon's table of fairness reproduced?

Source: Yao 2023, table 4.1.

How to run: ``.venv/bin/python -m experiments.papers.yao.charon_jain``

Results to expect: Jain's index of the servers' remaining work, 2 balancers, 64 servers of which
half have twice the capacity, flows of 500 ms. GSQ >= GSQ2 >= (W-)SAPP > WCMP >= ECMP in the
table, all rising with the load, the first four together at 100 %.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcgym.suites import Published
from dcgym.tasks.balancing import make_scenario
from experiments.papers.yao.common import Args, measure_all, name_of, run_script, save

PUBLISHED = {
    "gsq": (0.59, 0.64, 0.68, 0.69, 0.75),
    "gsq2": (0.54, 0.59, 0.63, 0.67, 0.74),
    "charon": (0.52, 0.56, 0.61, 0.66, 0.76),
    "sapp": (0.51, 0.57, 0.60, 0.66, 0.74),
    "wcmp": (0.43, 0.47, 0.49, 0.54, 0.63),
    "ecmp": (0.34, 0.47, 0.49, 0.51, 0.52),
}
LOADS = (0.645, 0.765, 0.845, 0.925, 1.0)


def published() -> list[Published]:
    """Return the table for reports."""
    return [
        Published("Yao 2023, table 4.1", "jain", policy, value, name_of(load))
        for policy, values in PUBLISHED.items()
        for load, value in zip(LOADS, values, strict=True)
    ]


def main(out: Path, args: Args | None = None) -> None:
    """Run every policy at every load."""
    pools = {load: make_scenario("charon-64", load=load) for load in LOADS}
    found = measure_all(out, tuple(PUBLISHED), pools, args or Args(), published())
    cells = [found[load] for load in LOADS]
    table = [
        {
            "policy": policy,
            **{
                f"{load:.1%}": f"{cell[policy]['jain'].mean():.2f} ({value:.2f})"
                for load, cell, value in zip(LOADS, cells, values, strict=True)
            },
        }
        for policy, values in PUBLISHED.items()
    ]

    def draw(axes: Any) -> None:
        for index, (policy, values) in enumerate(PUBLISHED.items()):
            colour = f"C{index}"
            measured = [cell[policy]["jain"].mean() for cell in cells]
            axes.plot(LOADS, measured, "o-", color=colour, label=policy)
            axes.plot(LOADS, values, "x:", color=colour)
        axes.set(xlabel="load", ylabel="Jain's index of the remaining work (x: published)")
        axes.legend(ncols=2)

    save(out, table, draw, "in brackets")


if __name__ == "__main__":
    run_script(__doc__, "charon_jain", main)
