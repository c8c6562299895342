"""What do path weights gain where one of two spines is slow?

How to run (root): ``.venv/bin/python -m experiments.papers.ruffy.unequal_spines``

Results to expect: two leaves of four hosts, a spine of 100 Mbit/s and one of 25. ECMP sends half of
the flows to the slow spine, where they crawl; WCMP sends a fifth there, so that goodput rises and
the slow tail of the completion times shrinks. The least-loaded policy finds the fast spine by
measuring. Loads are as even as they can be under WCMP.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path

from dcgym.suites import Case, Suite, run_suite
from dcgym.suites.intervals import bootstrap_95
from dcgym.suites.reports.layout import runs_of
from dcgym.topologies import Topology, make_topology

MBIT = 1_000_000
SHOWN = {
    "goodput_bps": ("goodput, Mbit/s", 1e6),
    "fct_us_p50": ("FCT p50, ms", 1e3),
    "fct_us_p99": ("FCT p99, ms", 1e3),
    "uplink_imbalance": ("max/mean load", 1.0),
    "queue_bytes_mean": ("queue, KB", 1e3),
}


@dataclass(frozen=True)
class Args:
    """Settings of the experiment."""

    out: Path = Path("runs/unequal-spines")
    policies: tuple[str, ...] = ("ecmp", "wcmp", "least-loaded", "random")
    seeds: int = 3
    seconds: float = 6.0
    warmup_s: float = 1.0
    interval_s: float = 0.05
    slow_mbit: int = 25
    backend: str = "emulation"
    jobs: int = 1


def two_spines(slow_mbit: int) -> Topology:
    """Return two leaves and two spines, the links of the second spine slower."""
    whole = make_topology({"name": "leaf-spine", "leaves": 2, "rate": "100Mbit"})
    slow = whole.switches[-1].name
    links = [
        replace(link, rate_bps=slow_mbit * MBIT) if link.b == slow else link for link in whole.links
    ]
    return Topology("two-spines", whole.nodes, tuple(links))


def comparison(args: Args) -> Suite:
    """Return the suite; flow after flow from every host to one behind the other leaf."""
    env = {
        "env": "PathBalancing-v2",
        "topology": two_spines(args.slow_mbit).to_dict(),
        "traffic": {"name": "stride-4", "size": "250KB", "repetitions": 0},
        "interval": f"{args.interval_s}s",
        "backend": args.backend,
    }
    return Suite(
        name="unequal-spines",
        description="Path weights where one of two spines is slow.",
        cases=(Case(env),),
        policies=args.policies,
        seeds=args.seeds,
        episode_s=args.seconds,
        warmup_s=args.warmup_s,
        jobs=args.jobs,
    )


def main(args: Args) -> None:
    """Run every policy on every seed and print means with 95 % intervals."""
    records = run_suite(comparison(args), args.out)
    for policy in args.policies:
        runs = runs_of(records, policy)
        cells = []
        for metric, (title, divisor) in SHOWN.items():
            values = [run["metrics"].get(metric, math.nan) / divisor for run in runs]
            cells.append(f"{title} {bootstrap_95(values).text('.2f', '.2f')}")
        states = {record["fidelity"]["status"] for record in runs}
        print(f"{policy}: {'; '.join(cells)}; fidelity {', '.join(sorted(states))}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    parser.add_argument("--seeds", type=int, default=Args.seeds)
    chosen = parser.parse_args()
    main(Args(out=chosen.out, seeds=chosen.seeds))
