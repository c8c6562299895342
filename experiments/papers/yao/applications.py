"""Do weights learned from durations fit applications that also wait for I/O?

Source: Yao 2023, section 6.5.9.

How to run: ``.venv/bin/python -m experiments.papers.yao.applications``

Results to expect: flows CPU - I/O - CPU of 1 s together, 128 servers, half of them with twice the
processors, all with the same I/O device, 4 balancers, 90 % load of the busier resource. The more
I/O, the less the processors say about a server: SED, which trusts them, falls behind; HLB's
weights move from the processors' ratio towards 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dcgym.tasks.balancing import Scenario, make_scenario
from dcgym.traffic.http import Application, Stage
from dcgym.traffic.sizes import exponential
from experiments.papers.yao.common import Args, measure_all, run_script, save, seconds

POLICIES = ("oracle", "hlb", "lsq", "sed")
CPU_S = (1.0, 0.75, 0.5, 0.25)


def scenario(cpu_s: float, load: float = 0.9) -> Scenario:
    """Return the pool with flows that spend so much of one second on a processor."""
    stages = [Stage("cpu", exponential(cpu_s if cpu_s == 1 else cpu_s / 2))]
    if cpu_s < 1:
        stages += [Stage("io", exponential(1 - cpu_s)), Stage("cpu", exponential(cpu_s / 2))]
    application = Application("staged", tuple(stages))
    return make_scenario("hlb-128", load=load).changed(applications=(application,))


def main(out: Path, args: Args | None = None) -> None:
    """Run every kind of application."""
    args = args or Args(seeds=3, seconds=600, warmup_s=120)
    cells = measure_all(out, POLICIES, {cpu_s: scenario(cpu_s) for cpu_s in CPU_S}, args)
    table = [
        {
            "CPU, s": cpu_s,
            "I/O, s": 1 - cpu_s,
            "policy": policy,
            "mean, s": seconds(metrics["fct_us_mean"]),
            "p90, s": seconds(metrics["fct_us_p90"]),
            "weights": f"{np.mean(metrics.weight_ratio):.2f}" if policy == "hlb" else "",
        }
        for cpu_s, found in cells.items()
        for policy, metrics in found.items()
    ]

    def draw(axes: Any) -> None:
        for policy in POLICIES:
            means = [cells[cpu_s][policy]["fct_us_mean"].mean() / 1e6 for cpu_s in CPU_S]
            axes.plot(CPU_S, means, marker="o", label=policy)
        axes.set(xlabel="CPU seconds of a flow", ylabel="mean completion time, s", yscale="log")
        axes.legend()

    save(out, table, draw, "HLB best for all four applications (table 6.4; values in a figure)")


if __name__ == "__main__":
    run_script(__doc__, "applications", main)
