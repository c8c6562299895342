"""How much longer do flows of a web search take than on an empty network, by size and transport?

How to run (root): ``.venv/bin/python -m experiments.speed.slowdown --out runs/slowdown``

Results to expect: every transport meets the identical flows (the digests agree). The short flows
wait behind the queues of the long ones: up to 10 KB half of them take some 20 times as long as on
an empty network with CUBIC, Reno, BBR and New Vegas, and a third of that with DCTCP, whose mean
over all sizes is a quarter of theirs. Over 1 MB all are alike, at 2.4 to 3. Two seeds tell the
order of the means, not the percentiles of the few long flows.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcgym.backends.base import Record
from dcgym.cli.flows import print_flows
from dcgym.suites.results import machine, prepare_folder, write_json
from dcgym.suites.rollout import run_episode
from dcgym.suites.spec import RunSpec

INTERVAL_S = 0.05


@dataclass(frozen=True)
class Args:
    """Settings of the comparison."""

    out: Path = Path("runs/slowdown")
    policies: tuple[str, ...] = ("cubic", "reno", "bbr", "dctcp", "new-vegas")
    seeds: int = 2
    episode_s: float = 12.0
    topology: dict[str, Any] = field(
        default_factory=lambda: {"name": "dumbbell", "hosts": 8, "rate": "100Mbit"}
    )
    # A tenth of the published sizes: as many flows in 12 s as 1 Gbit/s would see of the whole.
    traffic: dict[str, Any] = field(
        default_factory=lambda: {
            "name": "web-search-0.6",
            "scale": 0.1,
            "pairs": "pairs",
            "duration": "10s",
        }
    )


def score(policy: str, seed: int, args: Args) -> Record:
    """Run one episode and return its record."""
    env = {
        "env": "CongestionControl-v0",
        "topology": args.topology,
        "traffic": args.traffic,
        "interval": "50ms",
    }
    steps = round(args.episode_s / INTERVAL_S)
    return run_episode(RunSpec(env=env, policy=policy, seed=seed, steps=steps))


def main(args: Args) -> None:
    """Score every transport on the same seeds and print a table by size."""
    prepare_folder(args.out)
    records = []
    for policy in args.policies:
        for seed in range(args.seeds):
            record = score(policy, seed, args)
            records.append(record)
            print(policy, seed, record["plan"]["digest"][:12], record["fidelity"]["status"])
    print_flows(records)
    write_json(args.out / "results.json", {"records": records, "machine": machine()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    parser.add_argument("--seeds", type=int, default=Args.seeds)
    chosen = parser.parse_args()
    main(Args(out=chosen.out, seeds=chosen.seeds))
