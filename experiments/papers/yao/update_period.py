"""How often must weights be renewed?

Source: Yao 2023, section 6.5.5.

How to run: ``.venv/bin/python -m experiments.papers.yao.update_period``

Results to expect: at 90 % load, flows of 750 ms, AWCMP gets worse as its polls become rarer,
since it steers by what was true then. HLB's weights describe the servers, not the moment: it
stays flat.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dcgym.suites import Case
from dcgym.tasks.balancing import Scenario, make_scenario
from dcgym.traffic.sizes import exponential
from experiments.papers.yao.common import Args, case_of, measure_cases, run_script, save, seconds

POLICIES = ("hlb", "awcmp")
PERIODS_S = (0.2, 0.5, 1.0, 2.0, 5.0)


def scenario(period_s: float) -> Scenario:
    """Return the pool with polls of this period, whose answers take at most half of it."""
    period_ns = round(period_s * 1e9)
    delay_ns = (period_ns // 8, period_ns // 2)
    pool = make_scenario("hlb-128", load=0.9, service=exponential("750ms"))
    return pool.changed(probe_interval_ns=period_ns, probe_delay_ns=delay_ns)


def case(period_s: float, args: Args) -> Case:
    """Return the case in which both slow loops have this period."""
    timed = replace(args, interval_s=period_s)
    return case_of(period_s, scenario(period_s), timed, params={"hlb": {"period_s": period_s}})


def main(out: Path, args: Args | None = None) -> None:
    """Run both slow loops with every period."""
    args = args or Args(seeds=3)
    found = measure_cases(out, POLICIES, {one: case(one, args) for one in PERIODS_S}, args)
    cells = {policy: [found[period_s][policy] for period_s in PERIODS_S] for policy in POLICIES}
    table = [
        {"policy": policy, "period, s": period_s, "mean, s": seconds(metrics["fct_us_mean"])}
        for policy, found in cells.items()
        for period_s, metrics in zip(PERIODS_S, found, strict=True)
    ]

    def draw(axes: Any) -> None:
        for policy, found in cells.items():
            means = [metrics["fct_us_mean"].mean() / 1e6 for metrics in found]
            axes.plot(PERIODS_S, means, marker="o", label=policy)
        axes.set(xscale="log", yscale="log", xlabel="period, s", ylabel="mean completion time, s")
        axes.legend()

    save(out, table, draw, "AWCMP degrades with the period, HLB hardly (values in a figure only)")


if __name__ == "__main__":
    run_script(__doc__, "update_period", main)
