"""The supervised network before and after a change (E14), PPO and DDPG beside P4Wise.

Source: Tajbakhsh 2023, section 6.5.4 and figure 6.8: a network of three layers of ten nodes knows
the best weights of servers with one SmartNIC in 97 % of the cases, in 65 % once they have a second
one, and in 80 % where the SmartNIC is 20 % faster. P4Wise, which learns anew, is above 90 % again.

How to run: ``.venv/bin/python -m experiments.papers.tajbakhsh.learners``

Results to expect: the network is right nearly always in the pool that it was trained in. With a
second SmartNIC it sees what it has never seen, and under 6:1 the processors are less busy at the
same rate: on average it loses some twelve points, but one network loses half of its answers and
another none, as the weights of inputs that were always 0 have stayed as they were drawn. PPO of 20
seconds is near the table with Algorithm 1's reward; with the p99 trainings differ much. DDPG has
continuous actions: it sets real weights, and PPO does so beside it.
Intervals are over training seeds; all policies meet the same rates.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dcgym.envs.factory import make_env
from dcgym.policies import Policy, load_policy, make_policy
from dcgym.policies.accelerators import DeviceRulePolicy, MlpPolicy, gather_samples
from dcgym.policies.accelerators.static import step_towards
from dcgym.policies.base import AnyAction, Info, Observation
from dcgym.suites.results import machine, write_json
from dcgym.suites.spec import TrainingSpec
from dcgym.suites.training import train_policy
from dcgym.tasks.accelerators.agents import Agents
from dcgym.tasks.accelerators.presets import accelerator_pool
from dcgym.units import parse_duration
from dcgym.writing import prepare_folder
from experiments.papers.tajbakhsh.p4wise import Args as TableArgs
from experiments.papers.tajbakhsh.p4wise import limits_of, shown, trained, verdict_on

ENV_ID = "dcgym/AcceleratorBalancing-v0"
CONTROLS = ("server-only", "threshold", "random")
FIXED = "6:1 always"
BESIDE = "PPO and DDPG beside P4Wise"
FASTER = 1.2
# The reward of the p99 takes requests that wait; Algorithm 1 ends episodes where it is content.
# With real weights every accelerator has one: it would never be content at low rates.
P99 = {"reward": "p99", "is_terminal": False}
SCALED = "ppo, Algorithm 1, scaled"
LEARNERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    SCALED: ("ppo", limits_of("scaled")),
    "ppo, p99": ("ppo", P99),
    "ppo, p99, real weights": ("ppo", {**P99, "action": "weights"}),
    "ddpg, p99, real weights": ("ddpg", {**P99, "action": "weights"}),
}
"""Algorithm and arguments of the environment by the name in the table."""
# Enough steps for 6:0 to become 6:1 and back.
STEPS = 6
# What is published: before, with a second SmartNIC, with a faster one.
PUBLISHED = {"one SmartNIC": 0.97, "two": 0.65, "one, 20 % faster": 0.8}
LEAST_DROP = 0.1


@dataclass(frozen=True)
class Args:
    """Settings.

    Attributes:
        seeds: Trainings of each learner.
        networks: Trainings of the supervised network, whose failure differs from one to the next.
        samples: Samples of each class that the supervised network learns from.
        trials: Episodes of a score.
        episodes: Episodes of a table's training.
        servers: Servers of the pool.
        interval: Length of a step.
        loads: Range of the rate over what the processors can serve.
        train_s: Seconds of each training of PPO and DDPG; 0 leaves them out.
    """

    seeds: int = 5
    networks: int = 20
    samples: int = 150
    trials: int = 40
    episodes: int = 250
    servers: int = 64
    interval: str = "10s"
    loads: tuple[float, float] = (0.3, 0.95)
    train_s: float = 20.0


def pool_of(servers: int, accelerators: int, faster: float = 1.0) -> dict[str, Any]:
    """Return a pool whose SmartNICs are so many times as fast as measured."""
    pool = accelerator_pool(
        servers, accelerators, processor_weight=6.0, accelerator_weight=0.0
    ).changed(agents=Agents("none"))
    [group] = pool.groups
    processors, *nics = group.devices
    quick = [
        replace(nic, service_ns={name: round(ns / faster) for name, ns in nic.service_ns.items()})
        for nic in nics
    ]
    return pool.changed(groups=(replace(group, devices=(processors, *quick)),)).to_dict()


def arguments(args: Args, scenario: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the arguments of the environment: P4Wise's, from 6:0 on."""
    return {
        "env": ENV_ID,
        "scenario": dict(scenario),
        "interval": args.interval,
        "loads": args.loads,
        "max_steps": STEPS,
        "device_rule": "wrr",
        "action": "step",
        "weights": (6, 0),
        **more,
    }


class AllDevices(DeviceRulePolicy):
    """Goes to 6:1 from wherever it is, as PRT and WRR of the source are 6:0 and 6:1."""

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return the step towards 6:1."""
        return step_towards(info["weights"], 1)


class Judge:
    """Scores policies in one pool, all on the same rates and requests.

    Args:
        args: Settings.
        scenario: The pool.
        action: What the policies decide.
    """

    def __init__(self, args: Args, scenario: Mapping[str, Any], action: str = "step") -> None:
        self._args, self._scenario = args, scenario
        # Searches are remembered in the environment: one for all policies.
        asked = arguments(args, scenario, oracle=True, is_terminal=False, action=action)
        self.env = make_env(asked)

    def score(self, policy: Policy, thresholds: str | None = None) -> tuple[float, float]:
        """Return the accuracy of the last weights, and the median regret of their p99.

        Args:
            policy: It has learned.
            thresholds: Where Algorithm 1 has these thresholds, the policy stops where that stops:
                a table has learned nothing of what follows.
        """
        policy.bind(self.env)
        right, regrets = [], []
        rates = np.linspace(*self._args.loads, self._args.trials)
        capacity = self.env.unwrapped.session.system.task().pool.server_capacity_per_s
        for trial, load in enumerate(rates):
            observation, info = self.env.reset(
                seed=10_000 + trial, options={"rate": float(load * capacity)}
            )
            is_over = False
            while not is_over:
                action = policy.act(observation, info)
                observation, _, ends, stops, info = self.env.step(action)
                is_over = (
                    ends or stops or (thresholds is not None and _is_content(info, thresholds))
                )
            right.append(uses_accelerators(info["weights"]) == (info["best_weights"] > 0))
            regrets.append(info["metrics"]["latency_ms_p99"] / info["best_p99_ms"] - 1)
        return float(np.mean(right)), float(np.nanmedian(regrets))

    def close(self) -> None:
        """End the environment."""
        self.env.close()


def uses_accelerators(weights: np.ndarray[Any, Any]) -> bool:
    """Tell whether weights are nearer to 6:1 than to 6:0.

    Args:
        weights: Of the device positions, (D,), the processors first.
    """
    return bool(6.0 * np.max(weights[1:]) > 0.5 * weights[0])


def _is_content(info: Mapping[str, Any], thresholds: str) -> bool:
    """Tell whether Algorithm 1 would call this a success."""
    limits = limits_of(thresholds)
    limit_ms = parse_duration(limits["latency_threshold"], "latency_threshold") / 1e6
    is_fast = info["metrics"]["latency_ms_p99"] < limit_ms
    uses = bool(np.max(info["weights"][1:]) > 0)
    busy = float(info["utilisation"][0]) > limits["utilisation_threshold"]
    return is_fast and (not uses or busy)


def trained_networks(args: Args) -> list[MlpPolicy]:
    """Return networks that know pools of one SmartNIC, each from samples of its own."""
    env = make_env(arguments(args, pool_of(args.servers, 1), oracle=True, is_terminal=False))
    policies = [MlpPolicy(seed=seed) for seed in range(args.networks)]
    for seed, policy in enumerate(policies):
        policy.network.fit(*gather_samples(env, args.samples, seed=seed))
    env.close()
    return policies


def supervised(args: Args) -> list[dict[str, Any]]:
    """Return E14: accuracy of the network in its own pool and in changed ones, and P4Wise's."""
    pools = {
        "one SmartNIC": pool_of(args.servers, 1),
        "two": pool_of(args.servers, 2),
        "one, 20 % faster": pool_of(args.servers, 1, FASTER),
    }
    networks = trained_networks(args)
    table = replace(TableArgs(), episodes=args.episodes, interval=args.interval, loads=args.loads)
    rows = []
    for name, pool in pools.items():
        judge = Judge(args, pool)
        found = [judge.score(one)[0] for one in networks]
        anew = [trained(table, pool, seed) for seed in range(args.seeds)]
        tables = [judge.score(one, "scaled")[0] for one in anew]
        judge.close()
        rows.append(
            {
                "pool": name,
                "network": shown(found),
                "published": PUBLISHED[name],
                "p4wise, learned anew": shown(tables),
                "accuracies": found,
            }
        )
    return rows


def verdict_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return "holds" where the drop with a second SmartNIC is at least `LEAST_DROP`, surely."""
    before, after = (np.array(row["accuracies"]) for row in rows[:2])
    return verdict_on((before - after).tolist(), LEAST_DROP)


def trained_learner(args: Args, name: str, seed: int, folder: Path) -> Policy:
    """Return a policy that one of `LEARNERS` has trained on the environment of P4Wise."""
    algorithm, more = LEARNERS[name]
    env = arguments(args, pool_of(args.servers, 2), **more)
    own = folder / f"{name.replace(', ', '-').replace(' ', '-').lower()}-{seed}"
    spec = TrainingSpec(
        env=env, policy=algorithm, folder=str(own), seed=seed, train_s=args.train_s, envs=4
    )
    return load_policy(Path(train_policy(spec)["checkpoint"]))


def score_learners(
    args: Args, folder: Path, names: Sequence[str] = tuple(LEARNERS)
) -> dict[str, list[tuple[float, float]]]:
    """Train learners, and return accuracy and regret of each training by the learner's name.

    Args:
        args: Settings.
        folder: Folder of the trainings.
        names: Some of `LEARNERS`.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for name in names:
        action = LEARNERS[name][1].get("action", "step")
        judge = Judge(args, pool_of(args.servers, 2), action)
        policies = [trained_learner(args, name, seed, folder) for seed in range(args.seeds)]
        stop = "scaled" if name == SCALED else None
        found[name] = [judge.score(one, stop) for one in policies]
        judge.close()
    return found


def beside_p4wise(args: Args, folder: Path) -> list[dict[str, Any]]:
    """Return accuracy and regret of P4Wise, learners and controls in servers with two SmartNICs."""
    pool = pool_of(args.servers, 2)
    table = replace(TableArgs(), episodes=args.episodes, interval=args.interval, loads=args.loads)
    judge, seeds = Judge(args, pool), range(args.seeds)
    found: dict[str, list[tuple[float, float]]] = {}
    for name in ("published", "scaled"):
        tables = [trained(table, pool, seed, name) for seed in seeds]
        found[f"p4wise, {name}"] = [judge.score(one, name) for one in tables]
    if args.train_s:
        found |= score_learners(args, folder)
    for name in CONTROLS:
        controls = [make_policy(name, family="accelerators", seed=seed) for seed in seeds]
        found[name] = [judge.score(one) for one in controls]
    found[FIXED] = [judge.score(AllDevices("wrr"))] * len(seeds)
    judge.close()
    return [
        {
            "policy": name,
            "accuracy": shown([one for one, _ in results]),
            "regret": shown([two for _, two in results]),
        }
        for name, results in found.items()
    ]


def print_table(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table without its columns for programs."""
    columns = [column for column in rows[0] if column != "accuracies"]
    print(name)
    print(" | ".join(columns))
    for row in rows:
        print(" | ".join(str(row[column]) for column in columns))


def main(out: Path, args: Args | None = None) -> None:
    """Run both studies and print their tables."""
    args = args or Args()
    prepare_folder(out)
    changed = supervised(args)
    verdict = verdict_of(changed)
    print_table("E14", changed)
    print(f"E14, the network fails after a second SmartNIC was added: {verdict}", flush=True)
    learners = beside_p4wise(args, out)
    print_table(BESIDE, learners)
    tables = {"E14": changed, BESIDE: learners}
    write_json(out / "results.json", {"tables": tables, "verdict": verdict, "machine": machine()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "accelerators" / "learners")
    parser.add_argument("--train-s", type=float, default=Args.train_s)
    given = parser.parse_args()
    main(given.out, Args(train_s=given.train_s))
