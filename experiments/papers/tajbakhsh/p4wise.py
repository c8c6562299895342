"""Does P4Wise's table learn when accelerators help, at three scales, and after a change?

Source: Tajbakhsh 2023, chapter 6: figures 6.3 (learning rates), 6.4 to 6.7 (accuracy at 64, 128 and
256 servers, trained at 128) and 6.8 (a second accelerator is added).

How to run: ``.venv/bin/python -m experiments.papers.tajbakhsh.p4wise``

Results to expect: rewards of the last 100 actions come near 900 of 1000 within some hundred
actions, with both learning rates. Accuracy counts episodes that end with accelerators in use
exactly where the exhaustive search uses them. With the published thresholds it is no better than
chance: Algorithm 1 calls any p99 below one second a success, which the processors alone reach up
to some 85 % of their rate, while 6:1 is better from 57 % on; and with 6:1 they are above 60 % busy
only from 80 % on. Thresholds that are scaled to the measured curves give the turning point a
reward, and twice as many bins of the utilisation hit it better. Regret, the p99 over that of the
best weights, is the independent measure; the threshold controller, random actions and fixed weights
stand beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import dcgym  # noqa: F401 - registers the environments
from dcgym.policies import Policy, make_policy
from dcgym.policies.accelerators import P4WisePolicy, train_p4wise
from dcgym.suites.intervals import bootstrap_95
from dcgym.suites.results import machine, write_json
from dcgym.suites.verdicts import FAILS, HOLDS, NOISE
from dcgym.writing import prepare_folder

ENV_ID = "dcgym/AcceleratorBalancing-v0"
# Latency and utilisation thresholds of Algorithm 1: as published, and at the measured turning
# point, where 6:1 has a p99 of 275 ms and leaves the processors three quarters of 57 %. And bins of
# the table, whose number the thesis does not give: one of ten has 50 to 60 %, both sides of 57 %.
TABLES = {
    "published": ("1s", 0.6, 10),
    "scaled": ("320ms", 0.42, 10),
    "scaled, 20 bins": ("320ms", 0.42, 20),
}
# Of the tables, at every scale.
PUBLISHED_ACCURACY = 0.9
CONTROLS = ("server-only", "wrr", "threshold", "random", "oracle")


@dataclass(frozen=True)
class Args:
    """Settings.

    Attributes:
        seeds: Tables, each trained and scored on seeds of its own.
        episodes: Episodes of a training.
        recovery: Episodes after which a table that learns anew is scored.
        trials: Episodes of a score, with rates drawn from `loads`.
        steps: Most steps of an episode.
        scales: Servers of the pools that are scored; the tables are trained at `train_at`.
        train_at: Servers of the pool that is trained in.
        interval: Length of a step.
        loads: Range of the rate over what the processors can serve.
    """

    seeds: int = 5
    episodes: int = 250
    recovery: tuple[int, ...] = (25, 50, 100, 250)
    trials: int = 20
    steps: int = 6
    scales: tuple[int, ...] = (64, 128, 256)
    train_at: int = 128
    interval: str = "10s"
    loads: tuple[float, float] = (0.3, 0.95)


def pool_of(servers: int, **changes: object) -> dict[str, Any]:
    """Return a pool; weights need no reports, which take most of the time of large pools."""
    return {"preset": f"p4wise-{servers}", "agents": {"kind": "none"}, **changes}


def make(args: Args, scenario: Mapping[str, Any], policy: Policy, **more: Any) -> Any:
    """Return an environment for a policy, and bind it."""
    asked = {**policy.env_overrides(), **more}
    env = gym.make(
        ENV_ID,
        max_episode_steps=args.steps,
        scenario=scenario,
        interval=args.interval,
        loads=args.loads,
        **asked,
    )
    policy.bind(env)
    return env


def last_hundred(rewards: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the sum of the rewards of the last 100 actions, from the 100th on."""
    sums = np.cumsum(np.concatenate([[0.0], rewards]))
    return sums[100:] - sums[:-100]


def limits_of(table: str) -> dict[str, Any]:
    """Return the arguments of the environment for one of `TABLES`."""
    latency, utilisation, _ = TABLES[table]
    return {"latency_threshold": latency, "utilisation_threshold": utilisation}


def score(
    args: Args, scenario: Mapping[str, Any], policy: Policy, seed: int, table: str = ""
) -> tuple[float, float]:
    """Return how often the last weights used accelerators where the best do, and the regret.

    A table stops where Algorithm 1 does, as published: it has learned nothing of what follows.
    """
    limits = limits_of(table) if table else {"is_terminal": False}
    env = make(args, scenario, policy, oracle=True, **limits)
    right, regrets = [], []
    for trial in range(args.trials):
        observation, info = env.reset(seed=seed if trial == 0 else None)
        is_over = False
        while not is_over:
            observation, _, ends, stops, info = env.step(policy.act(observation, info))
            is_over = ends or stops
        used = info["metrics"]["accelerator_share"] > 0
        right.append(used == (info["best_weights"] > 0))
        regrets.append(info["metrics"]["latency_ms_p99"] / info["best_p99_ms"] - 1)
    env.close()
    return float(np.mean(right)), float(np.nanmedian(regrets))


def trained(
    args: Args, scenario: Mapping[str, Any], seed: int, table: str = "scaled"
) -> P4WisePolicy:
    """Return a table that has learned, in the state of a score."""
    policy = P4WisePolicy(bins=TABLES[table][2], seed=seed)
    env = make(args, scenario, policy, **limits_of(table))
    train_p4wise(env, policy, args.episodes, seed=seed)
    env.close()
    policy.is_learning = False
    return policy


def curves(args: Args) -> list[dict[str, Any]]:
    """Return figure 6.3: the rewards of the last 100 actions by learning rate."""
    rows = []
    for alpha in (0.3, 0.5):
        reached, ends = [], []
        for seed in range(args.seeds):
            policy = P4WisePolicy(alpha=alpha, seed=seed)
            env = make(args, pool_of(args.train_at), policy)
            sums = last_hundred(train_p4wise(env, policy, args.episodes, seed=seed))
            env.close()
            level = 0.9 * sums.max()
            reached.append(100.0 + int(np.argmax(sums >= level)))
            ends.append(float(sums[-1]))
        rows.append({"alpha": alpha, "actions to 90 %": shown(reached), "last 100": shown(ends)})
    return rows


def scales(args: Args) -> list[dict[str, Any]]:
    """Return figures 6.4 to 6.7: accuracy and regret at each scale, with controls."""
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for seed in range(args.seeds):
        policies: dict[str, Policy] = {
            f"p4wise, {name}": trained(args, pool_of(args.train_at), seed, name) for name in TABLES
        }
        for name in CONTROLS:
            policies[name] = make_policy(name, family="accelerators", seed=seed)
        for servers in args.scales:
            for name, policy in policies.items():
                table = name.removeprefix("p4wise, ") if name.startswith("p4wise") else ""
                result = score(args, pool_of(servers), policy, 1000 + seed, table)
                found.setdefault((servers, name), []).append(result)
    return [
        {
            "servers": servers,
            "policy": name,
            "accuracy": shown([one for one, _ in results]),
            "regret": shown([two for _, two in results]),
            "90 %": verdict_on([one for one, _ in results], PUBLISHED_ACCURACY),
        }
        for (servers, name), results in found.items()
    ]


def changes(args: Args) -> list[dict[str, Any]]:
    """Return figure 6.8: one SmartNIC, then two, with the old table, and while a new one learns."""
    one, two = (pool_of(args.train_at, accelerators=number) for number in (1, 2))
    found: dict[str, list[float]] = {}

    def note(name: str, pool: Mapping[str, Any], policy: P4WisePolicy, seed: int) -> None:
        found.setdefault(name, []).append(score(args, pool, policy, 1000 + seed, "scaled")[0])

    for seed in range(args.seeds):
        policy = trained(args, one, seed)
        note("one SmartNIC", one, policy, seed)
        note("two, the same table", two, policy, seed)
        policy.forget()
        learned = 0
        for episodes in args.recovery:
            env = make(args, two, policy, **limits_of("scaled"))
            policy.is_learning = True
            train_p4wise(env, policy, episodes - learned, seed=10_000 * (seed + 1) + learned)
            env.close()
            policy.is_learning, learned = False, episodes
            note(f"two, a new table after {episodes} episodes", two, policy, seed)
    return [{"pool": name, "accuracy": shown(values)} for name, values in found.items()]


def verdict_on(values: Sequence[float], least: float) -> str:
    """Say whether the mean is this much at least: one of `dcgym.suites.verdicts.VERDICTS`.

    Args:
        values: One of each training.
        least: What is claimed.
    """
    found = bootstrap_95(values)
    if found.low >= least:
        return HOLDS
    return FAILS if found.high < least else NOISE


def shown(values: Sequence[float]) -> str:
    """Return a mean with its 95 % interval."""
    return bootstrap_95(values).text()


def main(out: Path, args: Args | None = None) -> None:
    """Run the three studies and print their tables."""
    args = args or Args()
    prepare_folder(out)
    tables = {"figure 6.3": curves(args), "figures 6.4-6.7": scales(args), "6.8": changes(args)}
    for name, rows in tables.items():
        print(name)
        print(" | ".join(rows[0]))
        for row in rows:
            print(" | ".join(str(value) for value in row.values()))
    write_json(out / "results.json", {"tables": tables, "machine": machine()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "accelerators" / "p4wise")
    main(parser.parse_args().out)
