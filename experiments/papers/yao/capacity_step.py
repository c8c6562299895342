"""How fast do HLB's weights follow a change of capacity?

Source: Yao 2023, section 6.5.10.

How to run: ``.venv/bin/python -m experiments.papers.yao.capacity_step``

Results to expect: 2 balancers, 4 servers with 1 and 4 with 2 processors; half-way through the
strong ones slow down to half their speed, at 60 % load before and 90 % after. HLB's weights of
the two groups draw together, SED keeps trusting a ratio of 2 and crowds the strong group: HLB's
flows finish sooner. The filter takes minutes: its gain has settled long before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dcgym.suites.balancing import make_pool
from experiments.papers.yao.common import Args, measure_all, run_script, save, seconds

CASE = "capacity-step"
POLICIES = ("oracle", "hlb", "lsq", "sed", "wcmp")


def main(out: Path, args: Args | None = None) -> None:
    """Compare policies after the step, and follow HLB's weights."""
    args = args or Args(seconds=1200, warmup_s=600)
    pool = make_pool(CASE, 0.85, args.seconds)
    found = measure_all(out, POLICIES, {CASE: pool}, args)[CASE]
    ratios = found["hlb"].weight_ratios.mean(axis=0)
    table = [
        {
            "policy": policy,
            "mean after the step, s": seconds(metrics["fct_us_mean"]),
            "p99, s": seconds(metrics["fct_us_p99"]),
            "strong share": f"{metrics['share_strong'].mean():.1%}",
        }
        for policy, metrics in found.items()
    ]

    def draw(axes: Any) -> None:
        axes.plot(args.interval_s * np.arange(1, len(ratios) + 1), ratios)
        axes.axvline(args.seconds / 2, color="0.5", linestyle=":")
        axes.set(xlabel="time, s", ylabel="HLB's weight of strong over weak servers")

    save(out, table, draw, "weights become about equal after the step (figure 6.22)")


if __name__ == "__main__":
    run_script(__doc__, "capacity_step", main)
