"""One run of a balancing policy on a pool: on each balancer, or one over all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.suites.results import machine, write_run
from dcgym.suites.worker import run_worker

__all__ = ["run_episode"]

CENTRAL = "dcgym/CentralLoadBalancing-v0"
RECORD_LIMIT = 5_000_000
STEPS_PER_REPORT = 200

FloatArray = npt.NDArray[np.float64]
Progress = Callable[[float, str], None]


def run_episode(spec: Mapping[str, Any], progress: Progress = lambda *_: None) -> dict[str, Any]:
    """Run one episode and return its record.

    Args:
        spec: ``env`` (arguments of the environment), ``scenario`` (name for the results),
            ``sweep`` (values of swept arguments by path, if any), ``policy``, ``seed``, ``steps``,
            ``warmup_s``, ``checkpoint`` (or None), ``training`` (or None) and ``folder`` (or None),
            where steps, flows and summary are written.
        progress: Called with the done fraction and a note.

    Raises:
        ConfigError: Something in the specification is not allowed.
        FeatureNotSupported: The compiled simulation was not built.
    """
    from dcgym.envs.factory import env_id_of

    started = time.monotonic()
    env, policies = _make(spec)
    try:
        columns = _roll_out(env, policies, spec, progress)
        metrics, flows = _measure(env, columns, spec)
        fidelity = env.core.fidelity()
    finally:
        env.close()
    record = {
        "env": env_id_of(spec["env"]),
        "scenario": spec.get("scenario", ""),
        "sweep": dict(spec.get("sweep", {})),
        "backend": spec["env"].get("backend", "simulation"),
        "policy": spec["policy"],
        "seed": spec["seed"],
        "metrics": metrics,
        "fidelity": fidelity,
        "duration_s": round(time.monotonic() - started, 3),
        "config": {**spec["env"], "steps": spec["steps"], "warmup_s": spec["warmup_s"]},
        "training": spec.get("training"),
        "machine": machine(),
    }
    if spec.get("folder"):
        of_flows = {name: np.ascontiguousarray(flows[name]) for name in flows.dtype.names or ()}
        write_run(Path(spec["folder"]), record, columns, of_flows, spec.get("key"))
    return record


class _OneAgent:
    """A central environment behind the methods of a parallel one that a run needs."""

    agents = ("all balancers",)

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, seed: int) -> tuple[dict[str, Any], ...]:
        return self._by_agent(self._env.reset(seed=seed))

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        return self._by_agent(self._env.step(actions[self.agents[0]]))

    def _by_agent(self, values: tuple[Any, ...]) -> tuple[dict[str, Any], ...]:
        return tuple({self.agents[0]: value} for value in values)


def _make(spec: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Return the environment, and a policy for each agent."""
    from dcgym.envs.factory import env_id_of, make_env

    if env_id_of(spec["env"]) != CENTRAL:
        return _make_parallel(spec)
    policy = _make_policy(spec, 0)
    options = {"record_limit": RECORD_LIMIT, "warm_up": spec["warmup_s"]}
    made = make_env({**spec["env"], **policy.env_overrides(), **options, "max_steps": None})
    env = _OneAgent(made.unwrapped)
    return env, [policy.bind(made.unwrapped)]


def _make_parallel(spec: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    from dcgym.envs.factory import parallel_env

    arguments = {name: value for name, value in spec["env"].items() if name != "env"}
    n_balancers = len(parallel_env("LoadBalancing-v0", **arguments).possible_agents)
    policies = [_make_policy(spec, number) for number in range(n_balancers)]
    env = parallel_env(
        "LoadBalancing-v0",
        **{**arguments, **policies[0].env_overrides()},
        record_limit=RECORD_LIMIT,
        warm_up=spec["warmup_s"],
        max_steps=spec["steps"],
    )
    return env, [policy.bind(env) for policy in policies]


def _make_policy(spec: Mapping[str, Any], number: int) -> Any:
    from dcgym.policies import load_policy, make_policy

    if spec.get("checkpoint"):
        return load_policy(spec["checkpoint"])
    # Balancers that draw must not draw the same.
    seed = spec["seed"] * 1000 + number
    return make_policy(spec["policy"], family="balancing", seed=seed)


def _roll_out(
    env: Any, policies: list[Any], spec: Mapping[str, Any], progress: Progress
) -> dict[str, FloatArray]:
    """Run the steps and return them as columns."""
    progress(0.0, "running")
    observations, infos = env.reset(seed=spec["seed"])
    rows = []
    for step in range(spec["steps"]):
        actions = {
            agent: policy.act(observations[agent], infos[agent])
            for agent, policy in zip(env.agents, policies, strict=True)
        }
        observations, rewards, _, _, infos = env.step(actions)
        rows.append(_row(env, rewards, infos))
        if step % STEPS_PER_REPORT == 0:
            progress((step + 1) / spec["steps"], "running")
    progress(1.0, "running")
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _row(env: Any, rewards: Mapping[str, float], infos: Mapping[str, Any]) -> dict[str, float]:
    """Flatten a step: means over the balancers, and the part of the weights of each group."""
    first = next(iter(infos.values()))
    groups = np.array([group.name for group in env.scenario.server_groups])
    of_balancers = np.concatenate([info["weights"] for info in infos.values()])
    of_balancers = of_balancers.reshape(-1, len(groups))
    weights = np.mean(of_balancers / of_balancers.sum(axis=1, keepdims=True), axis=0)
    row = {"time_s": first["time_s"], "reward": float(np.mean(list(rewards.values())))}
    row |= first["metrics"]
    for name in dict.fromkeys(groups):
        row[f"weight_{name}"] = float(weights[groups == name].sum())
    return row


def _measure(
    env: Any, columns: Mapping[str, FloatArray], spec: Mapping[str, Any]
) -> tuple[dict[str, float], npt.NDArray[Any]]:
    """Return the metrics of the run and its flows, those of the warm-up left out."""
    from dcgym.tasks.balancing.metrics import flow_metrics, regret_us, server_metrics

    scenario, flows = env.scenario, env.flow_records()
    steady = columns["time_s"] > spec["warmup_s"]
    metrics = {"reward_mean": float(columns["reward"][steady].mean())}
    metrics |= flow_metrics(flows, [app.name for app in scenario.applications])
    metrics |= server_metrics(env.core.twin.summary(0), scenario)
    metrics["regret"] = regret_us(flows, _oracle_flows(env, spec["warmup_s"]))
    return metrics, flows


def _oracle_flows(env: Any, warmup_s: float) -> npt.NDArray[Any]:
    """Run the Oracle in the twin on the same arrivals for the same time; return its flows."""
    from dcgym.backends.simulation import BalancingTwin

    twin = BalancingTwin(env.scenario, record_limit=RECORD_LIMIT, warm_up_ns=round(warmup_s * 1e9))
    twin.reset(env.core.seeds)
    twin.set_rule("oracle")
    twin.advance(env.core.seen["time_ns"])
    return twin.records(0)


if __name__ == "__main__":
    run_worker(run_episode)
