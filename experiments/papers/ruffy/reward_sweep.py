"""Which fixed share of the link does the default reward prefer?

How to run (root): ``.venv/bin/python -m experiments.papers.ruffy.reward_sweep``

Results to expect: two senders share one bottleneck, so that the reward rises with the share up to
0.5, where the link is full and the queue empty, and falls beyond it as the queue fills.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from dcgym.suites import Case, Suite, run_suite
from dcgym.suites.congestion import QUICK_ENV

POLICY = "fixed-share"


@dataclass(frozen=True)
class Args:
    """Settings of the sweep."""

    out: Path = Path("runs/reward-sweep")
    shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    seconds: float = 5.0
    warmup_s: float = 2.0
    seeds: int = 1
    backend: str = "emulation"
    jobs: int = 1


def sweep(args: Args) -> Suite:
    """Return the suite: a case for each share."""
    env = {**QUICK_ENV, "backend": args.backend}
    cases = [
        Case(env, f"share={share}", {"share": share}, {POLICY: {"share": share}})
        for share in args.shares
    ]
    return Suite(
        name="reward-sweep",
        description="The default reward over a fixed share of the link.",
        cases=tuple(cases),
        policies=(POLICY,),
        seeds=args.seeds,
        episode_s=args.seconds,
        warmup_s=args.warmup_s,
        jobs=args.jobs,
    )


def main(args: Args) -> None:
    """Hold each share for an episode and print the mean reward after the warm-up."""
    for record in run_suite(sweep(args), args.out):
        share, reward = record["sweep"]["share"], record["metrics"]["reward_mean"]
        print(f"share {share:.2f}: reward {reward:.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    main(Args(out=parser.parse_args().out))
