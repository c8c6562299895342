"""What does each rule lose when more balancers share the flows?

Source: Yao 2023, sections 5.2 and 6.5.4.

How to run: ``.venv/bin/python -m experiments.papers.yao.balancers``

Results to expect: the pool of 64 + 64 servers at 90 % load behind 1 to 8 balancers. LSQ and SED
count their own flows and degrade most; GSQ and polling do not depend on the number; HLB is least
affected of the local rules. With one balancer counting beats polling. Two choices worsen LSQ, GSQ
and HLB, but with 8 balancers SED2 beats SED, which sends 74.2 % (published) to the strong half.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcgym.tasks.balancing import make_scenario
from experiments.papers.yao.common import Args, measure_all, run_script, save, seconds

POLICIES = ("gsq", "gsq2", "hlb", "hlb2", "lsq", "lsq2", "sed", "sed2", "awcmp")
NUMBERS = (1, 2, 4, 6, 8)


def main(out: Path, args: Args | None = None) -> None:
    """Run every number of balancers."""
    args = args or Args(seeds=3)
    pools = {number: make_scenario("hlb-128", load=0.9, balancers=number) for number in NUMBERS}
    cells = measure_all(out, POLICIES, pools, args)
    table = [
        {
            "balancers": number,
            "policy": policy,
            "mean, s": seconds(metrics["fct_us_mean"]),
            "p90, s": seconds(metrics["fct_us_p90"]),
            "strong share": f"{metrics['share_strong'].mean():.1%}",
        }
        for number, found in cells.items()
        for policy, metrics in found.items()
    ]

    def draw(axes: Any) -> None:
        for policy in POLICIES:
            means = [cells[number][policy]["fct_us_mean"].mean() / 1e6 for number in NUMBERS]
            axes.plot(
                NUMBERS, means, "--" if policy.endswith("2") else "-", marker="o", label=policy
            )
        axes.set(xlabel="balancers", ylabel="mean completion time, s", ylim=(0, None))
        axes.legend(fontsize=8, ncols=2)

    save(out, table, draw, "8 balancers: SED2 beats SED, which sends 74.2 % to the strong half")


if __name__ == "__main__":
    run_script(__doc__, "balancers", main)
