"""Do the rules rank on real servers as in the twin, with right weights and with wrong ones?

Source: Yao 2023, sections 6.2 and 6.5, and table 6.3 for the capacity ratio of 2.

How to run, as root: ``.venv/bin/python -m experiments.papers.yao.emulated_rules``

Results to expect (preset testbed-7 at 85 %, requests of 20 ms, a minute each): SED with right
weights is best, HLB and LSQ follow; WCMP takes twice as long, and ECMP overloads the weak servers.
With the weights of the two groups swapped SED takes nearly twice as long; HLB, which reads no
configured weight, takes as long as before. The twin, on the same flows, is within a few per cent.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.suites.balancing_episode import run_episode
from dcgym.suites.fidelity import worst_status
from dcgym.tasks.balancing import Scenario, make_scenario
from dcgym.traffic.sizes import exponential
from experiments.papers.yao.common import Args, run_script, save, seconds

CASES = (
    *(("sed", True), ("hlb", True), ("lsq", True), ("wcmp", True), ("ecmp", True)),
    *(("sed", False), ("hlb", False)),
)
BACKENDS = ("emulation", "simulation")
INTERVAL_S = 0.25


def scenario(has_right_weights: bool, load: float = 0.85) -> Scenario:
    """Return the testbed, the configured weights of its two groups as they are or swapped."""
    pool = make_scenario("testbed-7", load=load, service=exponential("20ms"))
    if has_right_weights:
        return pool
    weak, strong = pool.pool.groups
    return pool.changed(groups=(replace(weak, weight=4.0), replace(strong, weight=2.0)))


def measure(policy: str, pool: Scenario, backend: str, args: Args) -> dict[str, Any]:
    """Run a policy on every balancer; return its metrics and the worst fidelity."""
    env = {"scenario": pool.to_dict(), "backend": backend, "interval": f"{INTERVAL_S}s"}
    spec = {"env": env, "policy": policy, "warmup_s": args.warmup_s}
    steps = round(args.seconds / INTERVAL_S)
    runs = [run_episode({**spec, "seed": seed, "steps": steps}) for seed in args.seeds]
    names = ("fct_us_mean", "fct_us_p90", "rejected", "share_strong")
    found: dict[str, Any] = {
        name: np.array([run["metrics"][name] for run in runs]) for name in names
    }
    return found | {"fidelity": worst_status(runs)}


def main(out: Path, args: Args | None = None) -> None:
    """Run every case on both backends."""
    args = args or Args(seeds=(0, 1, 2), seconds=60, warmup_s=5)
    cells = {
        (policy, is_right, backend): measure(policy, scenario(is_right), backend, args)
        for policy, is_right in CASES
        for backend in BACKENDS
    }
    table = [
        {
            "policy": policy,
            "weights": "right" if is_right else "wrong",
            "backend": backend,
            "mean, s": seconds(found["fct_us_mean"]),
            "p90, s": seconds(found["fct_us_p90"]),
            "rejected": int(found["rejected"].sum()),
            "strong share": f"{found['share_strong'].mean():.2f}",
            "fidelity": found["fidelity"],
        }
        for (policy, is_right, backend), found in cells.items()
    ]

    def draw(axes: Any) -> None:
        places = np.arange(len(CASES))
        for shift, backend in enumerate(BACKENDS):
            means = [cells[(*case, backend)]["fct_us_mean"].mean() / 1e3 for case in CASES]
            axes.bar(places + 0.4 * shift, means, width=0.38, label=backend)
        labels = [f"{policy}\n{'right' if right else 'wrong'}" for policy, right in CASES]
        axes.set_xticks(places + 0.2 * (len(BACKENDS) - 1), labels)
        axes.set(ylabel="mean completion time, ms", yscale="log")
        axes.legend()

    note = "the order of the rules, thesis, sections 6.2.1 and 6.5"
    save(out, table, draw, note)


if __name__ == "__main__":
    run_script(__doc__, "emulated_rules", main)
