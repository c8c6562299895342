"""Does HLB hold for other distributions of flow durations?

Source: Yao 2023, section 6.5.6.

How to run: ``.venv/bin/python -m experiments.papers.yao.distributions``

Results to expect: lognormal service times with means and standard deviations of 1 and 2 s, 64 + 64
servers of ratio 2, 4 balancers, 90 % load. HLB leads LSQ and SED clearly where durations vary
little (mean 2, deviation 1), and its adaptive filter the frozen one (HLB-FIX) slightly, as
published for long flows. Where they vary much (mean 1, deviation 2) its samples say less, and LSQ
is as good.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dcgym.tasks.balancing import make_scenario
from dcgym.traffic.sizes import lognormal
from experiments.papers.yao.common import Args, measure_all, run_script, save, seconds

POLICIES = ("oracle", "gsq", "hlb", "hlb-fix", "lsq", "sed")
MOMENTS_S = ((1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (2.0, 2.0))


def main(out: Path, args: Args | None = None) -> None:
    """Run every distribution."""
    args = args or Args(seeds=3, seconds=600, warmup_s=120)
    pools = {
        moments: make_scenario("hlb-128", load=0.9, service=lognormal(*moments))
        for moments in MOMENTS_S
    }
    cells = measure_all(out, POLICIES, pools, args)
    table = [
        {
            "mean, s": mean,
            "std, s": std,
            "policy": policy,
            **{name: seconds(metrics[f"fct_us_{name}"]) for name in ("mean", "p50", "p90", "p99")},
        }
        for (mean, std), found in cells.items()
        for policy, metrics in found.items()
    ]

    def draw(axes: Any) -> None:
        quantiles = ("p50", "p90", "p95", "p99")
        for policy, metrics in cells[MOMENTS_S[0]].items():
            values = [np.mean(metrics[f"fct_us_{name}"]) / 1e6 for name in quantiles]
            axes.plot(values, [0.5, 0.9, 0.95, 0.99], marker="o", label=policy)
        axes.set(xlabel="completion time, s (mean 1 s, deviation 1 s)", ylabel="part of the flows")
        axes.legend()

    save(out, table, draw, "HLB near the Oracle, ahead of HLB-FIX for long flows (figure only)")


if __name__ == "__main__":
    run_script(__doc__, "distributions", main)
