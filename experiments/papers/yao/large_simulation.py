"""How much does HLB gain over LSQ and SED in a large pool?

Source: Yao 2023, section 6.5.2.

How to run: ``.venv/bin/python -m experiments.papers.yao.large_simulation``

Results to expect: 4 balancers, 64 servers with 1 and 64 with 2 processors, exponential flows of
500 ms, 88.5 % load. The thesis has HLB's 90th percentile 24.64 % below LSQ's and 25.59 % below
SED's. SED suffers although its weights are right: four balancers that each see a quarter of the
flows all prefer the strong servers. GSQ, which knows the true queues, and the Oracle bound HLB
from below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dcgym.tasks.balancing import make_scenario
from experiments.papers.yao.common import Args, change, measure_all, run_script, save, seconds

POLICIES = ("oracle", "gsq", "hlb", "hlb-fix", "lsq", "sed", "awcmp", "wcmp")
PUBLISHED = {"lsq": -0.2464, "sed": -0.2559}


def main(out: Path, args: Args | None = None) -> None:
    """Run the policies on the same arrivals and compare 90th percentiles."""
    pools = {"hlb-128": make_scenario("hlb-128")}
    (found,) = measure_all(out, POLICIES, pools, args or Args()).values()
    table = [
        {
            "policy": policy,
            "mean, s": seconds(metrics["fct_us_mean"]),
            "p90, s": seconds(metrics["fct_us_p90"]),
            "hlb's p90 against it": f"{change(found, 'hlb', policy, 'fct_us_p90'):+.1%}",
            "published": f"{PUBLISHED[policy]:+.1%}" if policy in PUBLISHED else "",
        }
        for policy, metrics in found.items()
    ]

    def draw(axes: Any) -> None:
        for name, marker in (("fct_us_mean", "o"), ("fct_us_p90", "^"), ("fct_us_p99", "s")):
            values = [np.mean(metrics[name]) / 1e6 for metrics in found.values()]
            axes.plot(POLICIES, values, marker, label=name.removeprefix("fct_us_"))
        axes.set_ylabel("completion time, s")
        axes.set_yscale("log")
        axes.legend()

    save(out, table, draw, "HLB p90 -24.64 % against LSQ, -25.59 % against SED")


if __name__ == "__main__":
    run_script(__doc__, "large_simulation", main)
