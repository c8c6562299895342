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

from dcgym.cli.flows import print_flows
from dcgym.suites import Case, Suite, run_suite


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


def main(args: Args) -> None:
    """Run every transport on the same seeds and print a table by size."""
    env = {"topology": args.topology, "traffic": args.traffic, "interval": "50ms"}
    suite = Suite(
        name="slowdown",
        description="Completion times by size and transport.",
        cases=(Case(env),),
        policies=args.policies,
        seeds=args.seeds,
        episode_s=args.episode_s,
        warmup_s=0.0,
        jobs=1,
    )
    records = run_suite(suite, args.out)
    for record in records:
        digest, status = record["plan"]["digest"][:12], record["fidelity"]["status"]
        print(record["policy"], record["seed"], digest, status)
    print_flows(records)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    parser.add_argument("--seeds", type=int, default=Args.seeds)
    chosen = parser.parse_args()
    main(Args(out=chosen.out, seeds=chosen.seeds))
