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

from dcgym.tasks.balancing import Scenario, make_scenario
from dcgym.traffic.sizes import exponential
from experiments.papers.yao.common import (
    Args,
    Cell,
    case_of,
    measure_cases,
    run_script,
    save,
    seconds,
)

CASES = (
    *(("sed", True), ("hlb", True), ("lsq", True), ("wcmp", True), ("ecmp", True)),
    *(("sed", False), ("hlb", False)),
)
BACKENDS = ("emulation", "simulation")


def scenario(has_right_weights: bool, load: float = 0.85) -> Scenario:
    """Return the testbed, the configured weights of its two groups as they are or swapped."""
    pool = make_scenario("testbed-7", load=load, service=exponential("20ms"))
    if has_right_weights:
        return pool
    weak, strong = pool.pool.groups
    return pool.changed(groups=(replace(weak, weight=4.0), replace(strong, weight=2.0)))


def measure(out: Path, is_right: bool, args: Args) -> dict[tuple[str, bool, str], Cell]:
    """Run the policies that are asked for with these weights, on both backends."""
    policies = [policy for policy, wants_right in CASES if wants_right == is_right]
    cases = {
        backend: case_of(backend, scenario(is_right), args, backend=backend) for backend in BACKENDS
    }
    found = measure_cases(out / ("right" if is_right else "wrong"), policies, cases, args)
    return {
        (policy, is_right, backend): found[backend][policy]
        for policy in policies
        for backend in BACKENDS
    }


def main(out: Path, args: Args | None = None) -> None:
    """Run every case on both backends."""
    # Two emulations at once would take the processors from each other.
    args = args or Args(seeds=3, seconds=60, warmup_s=5, interval_s=0.25, jobs=1)
    cells = measure(out, True, args) | measure(out, False, args)
    table = [
        {
            "policy": policy,
            "weights": "right" if is_right else "wrong",
            "backend": backend,
            "mean, s": seconds(found["fct_us_mean"]),
            "p90, s": seconds(found["fct_us_p90"]),
            "rejected": int(found["rejected"].sum()),
            "strong share": f"{found['share_strong'].mean():.2f}",
            "fidelity": found.fidelity,
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
