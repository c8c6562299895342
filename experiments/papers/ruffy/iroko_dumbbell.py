"""DCTCP, New Vegas and a fair share in the settings of Iroko's dumbbell at 10 Mbit/s.

How to run (root): ``.venv/bin/python -m experiments.papers.ruffy.iroko_dumbbell --out runs/iroko``

Results to expect: all nearly fill the link of 10 Mbit/s. The fair share keeps almost no queue;
DCTCP (on RED's ramp) and New Vegas (ten packets a flow and more, as the least RTT is measured
anew) some 40 KB, and CUBIC most of the 400 KB. In the thesis New Vegas had little of 10 Mbit/s.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.suites import Case, Suite, run_suite
from dcgym.suites.reports.layout import runs_of
from dcgym.tasks.common.presets import read_config


@dataclass(frozen=True)
class Args:
    """Settings of the comparison."""

    out: Path = Path("runs/iroko")
    preset: str = "iroko-dumbbell-10mbit"
    policies: tuple[str, ...] = ("cubic", "dctcp", "new-vegas", "fair-share")
    seeds: int = 3
    episode_s: float = 12.0
    warmup_s: float = 2.0
    backend: str = "emulation"
    jobs: int = 1


def line(policy: str, runs: list[dict[str, Any]]) -> str:
    """Describe the mean of a policy's runs."""
    mean = {name: np.mean([run["metrics"][name] for run in runs]) for name in runs[0]["metrics"]}
    goodput, queue = mean["goodput_bps"] / 1e6, mean["queue_bytes_mean"] / 1e3
    rtt, reward = mean["rtt_us_p50"] / 1e3, mean["reward_mean"]
    states = ", ".join(sorted({run["fidelity"]["status"] for run in runs}))
    return (
        f"{policy:>10}: {goodput:5.2f} Mbit/s, queue {queue:6.1f} KB, RTT p50 {rtt:6.1f} ms, "
        f"reward {reward:6.3f}, fidelity {states}"
    )


def main(args: Args) -> None:
    """Run every policy on the same seeds and print one line for each."""
    suite = Suite(
        name="iroko-dumbbell",
        description="Iroko's dumbbell at 10 Mbit/s.",
        cases=(Case({**read_config(args.preset), "backend": args.backend}),),
        policies=args.policies,
        seeds=args.seeds,
        episode_s=args.episode_s,
        warmup_s=args.warmup_s,
        jobs=args.jobs,
    )
    records = run_suite(suite, args.out)
    for policy in args.policies:
        print(line(policy, runs_of(records, policy)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    parser.add_argument("--preset", default=Args.preset)
    parser.add_argument("--seeds", type=int, default=Args.seeds)
    chosen = parser.parse_args()
    main(Args(out=chosen.out, preset=chosen.preset, seeds=chosen.seeds))
