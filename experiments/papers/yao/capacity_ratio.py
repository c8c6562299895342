"""Which rule wins as servers become more unequal?

Source: Yao 2023, section 6.5.3.

How to run: ``.venv/bin/python -m experiments.papers.yao.capacity_ratio``

Results to expect: 4 balancers, 64 servers with 1 processor and 64 with 1, 2 or 4. At ratio 1 SED
is LSQ. At 70 % load and ratio 4 SED and HLB are best, and SED sends nearly everything to the
strong servers. At 90 % LSQ overtakes SED (published: SED sends 12.14 times the work to strong
servers), and HLB, whose weights stay well below the ratio of the processors, beats both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dcgym.tasks.balancing import make_scenario
from experiments.papers.yao.common import Args, Cell, measure_all, run_script, save, seconds

POLICIES = ("oracle", "hlb", "lsq", "sed")
RATIOS, LOADS = (1, 2, 4), (0.7, 0.9)


def main(out: Path, args: Args | None = None) -> None:
    """Run every ratio at both loads."""
    pools = {
        (load, ratio): make_scenario("hlb-128", load=load, ratio=ratio)
        for load in LOADS
        for ratio in RATIOS
    }
    cells = measure_all(out, POLICIES, pools, args or Args())
    table = [
        {
            "load": load,
            "ratio": ratio,
            "policy": policy,
            "mean, s": seconds(metrics["fct_us_mean"]),
            "p90, s": seconds(metrics["fct_us_p90"]),
            "strong over weak, flows": f"{share_ratio(metrics):.2f}",
            "weights": f"{np.mean(metrics.weight_ratio):.2f}" if policy == "hlb" else "",
        }
        for (load, ratio), found in cells.items()
        for policy, metrics in found.items()
    ]

    def draw(axes: Any) -> None:
        for policy in POLICIES:
            for load, style in zip(LOADS, ("--", "-"), strict=True):
                means = [cells[load, ratio][policy]["fct_us_mean"].mean() / 1e6 for ratio in RATIOS]
                axes.plot(RATIOS, means, style, marker="o", label=f"{policy} at {load:.0%}")
        axes.set(xlabel="processors of a strong server", ylabel="mean completion time, s")
        axes.legend(fontsize=8, ncols=2)

    save(out, table, draw, "SED = LSQ at ratio 1; at ratio 4 and 90 % SED sends 12.14x, LSQ wins")


def share_ratio(metrics: Cell) -> float:
    """Return flows of the strong group over those of the weak one."""
    return float(np.mean(metrics["share_strong"] / metrics["share_weak"]))


if __name__ == "__main__":
    run_script(__doc__, "capacity_ratio", main)
