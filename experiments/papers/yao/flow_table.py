"""What is lost when the flow table is too small?

Source: Yao 2023, section 6.5.7.

How to run: ``.venv/bin/python -m experiments.papers.yao.flow_table``

Results to expect: 128 servers with 2 and 128 with 4 processors, 4 balancers, 90 % load, a table
with one flow a bucket. A flow without an entry follows ECMP and is in no count: with fewer buckets
LSQ steers less of the traffic by counts that miss more of it. The thesis has HLB degrade least and
win at 1024 buckets; here it loses half of what LSQ loses, and SED as little.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcgym.tasks.balancing import Scenario, make_scenario, server_group
from dcgym.traffic.sizes import exponential
from experiments.papers.yao.common import Args, measure_all, run_script, save, seconds

POLICIES = ("hlb", "lsq", "sed")
BUCKETS = (1024, 2048, 4096, 16_384, 65_536)


def scenario(buckets: int, servers: int = 256, load: float = 0.9) -> Scenario:
    """Return the pool with a table of so many buckets."""
    groups = (
        server_group("weak", servers // 2, workers=2),
        server_group("strong", servers // 2, workers=4),
    )
    pool = make_scenario("hlb-128", load=load, service=exponential("250ms"))
    return pool.changed(groups=groups, flow_table_buckets=buckets, flow_table_ways=1)


def main(out: Path, args: Args | None = None) -> None:
    """Run every table size."""
    args = args or Args(seeds=3, seconds=90, warmup_s=30)
    cells = measure_all(out, POLICIES, {buckets: scenario(buckets) for buckets in BUCKETS}, args)
    table = [
        {
            "buckets": buckets,
            "policy": policy,
            "mean, s": seconds(metrics["fct_us_mean"]),
            "p90, s": seconds(metrics["fct_us_p90"]),
            "untracked": f"{metrics['untracked'].mean():.0f}",
        }
        for buckets, found in cells.items()
        for policy, metrics in found.items()
    ]

    def draw(axes: Any) -> None:
        for policy in POLICIES:
            means = [cells[buckets][policy]["fct_us_mean"].mean() / 1e6 for buckets in BUCKETS]
            axes.plot(BUCKETS, means, marker="o", label=policy)
        axes.set(xscale="log", xlabel="buckets", ylabel="mean completion time, s")
        axes.legend()

    save(out, table, draw, "HLB degrades least and is best at 1024 buckets (figure only)")


if __name__ == "__main__":
    run_script(__doc__, "flow_table", main)
