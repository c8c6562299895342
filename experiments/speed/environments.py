"""Environments over the emulation: steps, deadlines, what flows reach, build, reset, close."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

import dcgym
from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.needs import NetworkNeeds
from dcgym.backends.records import FIDELITY
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import Topology, make_topology
from dcgym.traffic import make_plan
from experiments.speed.fair_share import measure_fair_share

__all__ = ["measure_deadlines", "measure_life", "measure_steps", "measure_stride"]

STEPS = 2000
TIMED_STEPS = 1000
MISS_US = 1000


def _make_env(
    topology: Topology | str, traffic: str, interval: str, steps: int
) -> gym.Env[Any, Any]:
    dcgym.register_envs()
    return gym.make(
        "dcgym/CongestionControl-v2",
        topology=topology,
        traffic=traffic,
        interval=interval,
        max_episode_steps=steps + 1,
        disable_env_checker=True,
    )


def _draw_actions(env: gym.Env[Any, Any], steps: int) -> npt.NDArray[np.float32]:
    """Draw a new action for each step, so that all limits change."""
    shape = (steps, *(env.action_space.shape or ()))
    return np.random.default_rng(0).uniform(0.2, 1.0, shape).astype(np.float32)


def measure_steps(topology: Topology | str, traffic: str) -> dict[str, Any]:
    """Free-running steps, a new random action each, all limits changed and acknowledged."""
    env = _make_env(topology, traffic, "0ms", STEPS)
    try:
        env.reset(seed=0)
        taken_ns = np.empty(STEPS)
        for index, action in enumerate(_draw_actions(env, STEPS)):
            began_ns = time.perf_counter_ns()
            env.step(action)
            taken_ns[index] = time.perf_counter_ns() - began_ns
    finally:
        env.close()  # type: ignore[no-untyped-call]
    p50, p99 = np.percentile(taken_ns, [50, 99]) / 1e3
    return {
        "topology": topology if isinstance(topology, str) else topology.name,
        "p50_us": p50,
        "p99_us": p99,
    }


def measure_deadlines(topology: Topology, traffic: str) -> dict[str, Any]:
    """Steps of 10 ms under load.

    A deadline was missed if the step woke over 1 ms after it; an action was late if it was in
    force so late that an interval of its own began.
    """
    env = _make_env(topology, traffic, "10ms", TIMED_STEPS)
    try:
        env.reset(seed=0)
        infos = [env.step(action)[4] for action in _draw_actions(env, TIMED_STEPS)]
    finally:
        env.close()  # type: ignore[no-untyped-call]
    late_us = np.array([info["deadline_overrun_us"] for info in infos])
    action_us = np.array([info["action_latency_us"] for info in infos])
    return {
        "topology": topology.name,
        "woke_p50_us": float(np.percentile(late_us, 50)),
        "woke_p99_us": float(np.percentile(late_us, 99)),
        "missed_%": float((late_us > MISS_US).mean() * 100),
        "action_p50_us": float(np.percentile(action_us, 50)),
        "action_p99_us": float(np.percentile(action_us, 99)),
        "late_action_%": 100 * float(np.mean([info["is_restarted"] for info in infos])),
    }


def measure_stride(topology: Topology, warmup_s: float) -> dict[str, Any]:
    """One TCP flow from each host to one of another pod, against the max-min share of its path."""
    network = OneNetwork(EmulationNetwork(NetworkNeeds(topology=topology, flow_matrix=True)))
    try:
        network.start()
        plan = make_plan("stride-8", topology, 0)
        measured = measure_fair_share(network, plan, warmup_s, seconds=4.0)
        reached_bps, fair_bps = measured["reached_bps"].sum(), measured["fair_bps"].sum()
        fidelity = network.records(FIDELITY)
        return {
            "links_bps": topology.links[0].rate_bps,
            "reached_bps": float(reached_bps),
            "fair_bps": float(fair_bps),
            "share_percent": float(100 * reached_bps / fair_bps),
            "deficit_%": 100 * fidelity.figures.get("rate_deficit", math.nan),
            "idle_%": 100 * fidelity.figures["cpu_idle_share"],
            "fidelity": "; ".join([fidelity.status, *fidelity.reasons]),
        }
    finally:
        network.close()


def measure_life(topology: Topology | str | dict[str, Any]) -> dict[str, Any]:
    """Build, reset in place under load, close."""
    graph = make_topology(topology)
    network = OneNetwork(EmulationNetwork(graph))
    pattern = "pairs" if graph.name == "dumbbell" else "stride-1"
    episode = NetworkEpisode(make_plan(pattern, graph, 0))
    times: dict[str, float] = {}

    def timed(what: str, call: Callable[[], object]) -> None:
        began = time.perf_counter()
        call()
        times[what] = (time.perf_counter() - began) * 1e3

    timed("build_ms", network.start)
    try:
        network.reset(episode)
        network.advance(time.monotonic_ns() + 1_000_000_000)
        timed("reset_ms", lambda: network.reset(episode))
    finally:
        timed("close_ms", network.close)
    return {"topology": graph.name, "hosts": len(graph.hosts), **times}
