"""One run: a policy on a fresh environment, its steps and its metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcgym.suites.flows import describe_flows, flow_table
from dcgym.suites.results import machine, write_run
from dcgym.suites.statistics import summarise
from dcgym.suites.worker import run_worker
from dcgym.traffic.plans.applications import APPS

__all__ = ["run_episode", "with_overrides"]

# What the decisions show of themselves, and the column of each.
DECISIONS = {
    "rate_shares": "rate_share",
    "path_weights": "path_weight",
    "uplink_loads": "uplink_load",
}

FloatArray = npt.NDArray[np.float64]
Row = dict[str, float]
Progress = Callable[[float, str], None]


def run_episode(spec: Mapping[str, Any], progress: Progress = lambda *_: None) -> dict[str, Any]:
    """Run one episode and return its record.

    Args:
        spec: ``env`` (arguments of the environment), ``policy``, ``seed``, ``steps``,
            ``interval_s``, ``warmup_s``, ``checkpoint`` (or None), ``training`` (or None),
            ``folder`` (or None), where steps, flows and summary are written, and for the results
            ``scenario`` (its name) and ``sweep`` (values of swept arguments by path), if any.
        progress: Called with the done fraction and a note.

    Raises:
        ConfigError: Something in the specification is not allowed.
        BackendError: The emulation died.
    """
    from dcgym.envs.factory import env_id_of, make_env

    started = time.monotonic()
    policy = _make_policy(spec)
    config = _with_output(with_overrides(spec["env"], policy.env_overrides()), spec.get("folder"))
    env: Any = make_env({**config, "max_steps": spec["steps"]})
    try:
        policy.bind(env)
        rollout = _roll_out(env, policy, spec, progress)
        backend, topology = env.unwrapped.backend, env.unwrapped.topology
        fidelity = dict(backend.fidelity())
        backend.stop_traffic()
        flows, apps = backend.flow_records(), _app_records(backend)
        backend_name, events = str(backend.name), _events(env)
        implementations = dict(getattr(backend, "congestion_control", {}))
        of_flows = describe_flows(env, flows, rollout.began_ns, rollout.ended_ns, spec["warmup_s"])
    finally:
        env.close()
    columns = _columns(rollout.rows)
    metrics = summarise(columns, spec["warmup_s"], rollout.received_bytes)
    record = {
        "env": env_id_of(config),
        "scenario": spec.get("scenario", ""),
        "sweep": dict(spec.get("sweep", {})),
        "backend": backend_name,
        "policy": spec["policy"],
        "seed": spec["seed"],
        "metrics": {**metrics, **of_flows["metrics"]},
        "flow_sizes": of_flows["flow_sizes"],
        "plan": of_flows["plan"],
        "fidelity": fidelity,
        "congestion_control": implementations,
        "events": events,
        **({"apps": apps} if apps else {}),
        "duration_s": round(time.monotonic() - started, 3),
        "config": {**config, "steps": spec["steps"], "warmup_s": spec["warmup_s"]},
        "training": spec.get("training"),
        "machine": machine(),
    }
    if spec.get("folder"):
        table = flow_table(flows, [host.name for host in topology.hosts])
        write_run(Path(spec["folder"]), record, columns, table, spec.get("key"))
    return record


def with_overrides(env: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with what a policy asks for.

    A policy says whether switches mark; how they do stays the configuration's.
    """
    config = {**env, **overrides}
    if overrides.get("marking") is True and isinstance(env.get("marking"), Mapping):
        config["marking"] = env["marking"]
    return config


def _with_output(config: dict[str, Any], folder: str | None) -> dict[str, Any]:
    """Return a configuration whose applications print into the folder of the run."""
    traffic = config.get("traffic")
    if folder is None or not isinstance(traffic, Mapping) or APPS not in traffic:
        return config
    return {**config, "traffic": {"output": str(Path(folder) / APPS), **traffic}}


def _app_records(backend: Any) -> list[dict[str, Any]]:
    return list(backend.app_records()) if hasattr(backend, "app_records") else []


def _events(env: Any) -> list[dict[str, Any]]:
    """Read what happened to the network, recovery times included."""
    inner = env.unwrapped
    return list(inner.backend.event_records()) if getattr(inner, "events", ()) else []


def _make_policy(spec: Mapping[str, Any]) -> Any:
    from dcgym.envs.factory import env_id_of, policy_family
    from dcgym.policies import load_policy, make_policy

    if spec.get("checkpoint"):
        return load_policy(spec["checkpoint"])
    family = policy_family(env_id_of(spec["env"]))
    return make_policy(spec["policy"], family=family, seed=spec["seed"])


class _Rollout(NamedTuple):
    """The steps of an episode, its begin and end, and each receiver's bytes after the warm-up."""

    rows: list[Row]
    received_bytes: FloatArray
    began_ns: int
    ended_ns: int


def _roll_out(env: Any, policy: Any, spec: Mapping[str, Any], progress: Progress) -> _Rollout:
    """Run the steps."""
    progress(0.0, "building")
    observation, info = env.reset(seed=spec["seed"])
    warmup_steps = round(spec["warmup_s"] / spec["interval_s"])
    rows: list[Row] = []
    began_ns, before = _received_bytes(env)
    for index in range(spec["steps"]):
        if index == warmup_steps:
            _, before = _received_bytes(env)
        action = policy.act(observation, info)
        observation, reward, terminated, truncated, info = env.step(action)
        rows.append(_row((index + 1) * spec["interval_s"], float(reward), action, info))
        progress((index + 1) / spec["steps"], "running")
        if terminated or truncated:
            break
    ended_ns, after = _received_bytes(env)
    return _Rollout(rows, after - before, began_ns, ended_ns)


def _received_bytes(env: Any) -> tuple[int, FloatArray]:
    """Read the time, and what each destination has received since the episode began."""
    inner = env.unwrapped
    destinations = inner.plan.receivers
    chosen = [host.name in destinations for host in inner.topology.hosts]
    snapshot = inner.backend.snapshot()
    return snapshot.time_ns, snapshot.hosts["rx_bytes"][chosen].astype(np.float64)


def _row(time_s: float, reward: float, action: Any, info: Mapping[str, Any]) -> Row:
    """Flatten what a step returned; arrays become one column an entry."""
    row: Row = {"time_s": time_s, "reward": reward}
    named = [
        *info["metrics"].items(),
        *((f"reward_{name}", value) for name, value in info["reward_terms"].items()),
        *((name, info[name]) for name in ("action_latency_us", "observation_age_us")),
        ("deadline_overrun_us", info["deadline_overrun_us"]),
        *((column, info[name]) for name, column in DECISIONS.items() if name in info),
        *(_parts(action)),
    ]
    for name, value in named:
        values = np.asarray(value, dtype=np.float64)
        if values.ndim == 0:
            row[name] = float(values)
        else:
            row.update({f"{name}_{i}": float(entry) for i, entry in enumerate(values.ravel())})
    return row


def _parts(action: Any) -> list[tuple[str, Any]]:
    if isinstance(action, Mapping):
        return [(f"action_{name}", part) for name, part in action.items()]
    return [("action", action)]


def _columns(rows: list[Row]) -> dict[str, FloatArray]:
    return {name: np.asarray([row.get(name, math.nan) for row in rows]) for name in rows[0]}


if __name__ == "__main__":
    run_worker(run_episode)
