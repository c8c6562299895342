"""DCTCP, New Vegas and a fair share in the settings of Iroko's dumbbell at 10 Mbit/s.

How to run (root): ``.venv/bin/python experiments/iroko_dumbbell.py --out runs/iroko``

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
from dcgym.suites.episode import run_episode

from dcgym.suites.results import machine, prepare_folder, write_json
from dcgym.tasks.congestion.presets import read_config
from dcgym.units import parse_duration


@dataclass(frozen=True)
class Args:
    """Settings of the comparison."""

    out: Path = Path("runs/iroko")
    preset: str = "iroko-dumbbell-10mbit"
    policies: tuple[str, ...] = ("cubic", "dctcp", "new-vegas", "fair-share")
    seeds: int = 3
    episode_s: float = 12.0
    warmup_s: float = 2.0


def score(policy: str, seed: int, args: Args) -> dict[str, Any]:
    """Run one episode and return its record."""
    env = read_config(args.preset)
    interval_s = parse_duration(env["interval"]) / 1e9
    return run_episode(
        {
            "env": env,
            "policy": policy,
            "seed": seed,
            "steps": round(args.episode_s / interval_s),
            "interval_s": interval_s,
            "warmup_s": args.warmup_s,
        }
    )


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
    """Score every policy on the same seeds and print one line for each."""
    prepare_folder(args.out)
    records = []
    for policy in args.policies:
        runs = [score(policy, seed, args) for seed in range(args.seeds)]
        records += runs
        print(line(policy, runs), flush=True)
    write_json(args.out / "results.json", {"records": records, "machine": machine()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    parser.add_argument("--preset", default=Args.preset)
    parser.add_argument("--seeds", type=int, default=Args.seeds)
    chosen = parser.parse_args()
    main(Args(out=chosen.out, preset=chosen.preset, seeds=chosen.seeds))
