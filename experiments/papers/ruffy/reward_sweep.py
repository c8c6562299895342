"""Which fixed share of the link does the default reward prefer?

How to run (root): ``.venv/bin/python experiments/reward_sweep.py --out runs/reward-sweep``

Results to expect: two senders share one bottleneck, so that the reward rises with the share up to
0.5, where the link is full and the queue empty, and falls beyond it as the queue fills.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from dcgym.suites.config import QUICK_ENV

import dcgym
from dcgym.suites.results import machine, prepare_folder, write_json


@dataclass(frozen=True)
class Args:
    """Settings of the sweep."""

    out: Path = Path("runs/reward-sweep")
    shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    steps: int = 100
    warmup_steps: int = 40
    seed: int = 0


def mean_reward(env: Any, share: float, args: Args) -> float:
    """Hold one share for an episode and return the mean reward after the warm-up."""
    policy = dcgym.make_policy("fixed-share", env, share=share)
    observation, info = env.reset(seed=args.seed)
    rewards = []
    for _ in range(args.steps):
        observation, reward, *_, info = env.step(policy.act(observation, info))
        rewards.append(float(reward))
    return float(np.mean(rewards[args.warmup_steps :]))


def main(args: Args) -> None:
    """Run the sweep in one network, episode after episode."""
    prepare_folder(args.out)
    env = dcgym.make_env({**QUICK_ENV, "max_steps": args.steps})
    results = {}
    try:
        for share in args.shares:
            results[str(share)] = mean_reward(env, share, args)
            print(f"share {share:.2f}: reward {results[str(share)]:.3f}", flush=True)
    finally:
        env.close()
    write_json(args.out / "results.json", {"rewards": results, "machine": machine()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    main(Args(out=parser.parse_args().out))
