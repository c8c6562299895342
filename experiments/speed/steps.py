"""Speed of environments over the twins, at their defaults: steps a second of an episode."""

from __future__ import annotations

import itertools
import time
from typing import Any

import gymnasium as gym
import numpy as np

import dcgym

__all__ = ["measure_twin_steps"]

# Only the networks run elsewhere by default, and on several threads if asked.
NETWORK = {"backend": "simulation"}
ENVS: dict[str, dict[str, Any]] = {
    "CongestionControl-v2": NETWORK,
    "PathBalancing-v2": NETWORK,
    "Joint-v2": NETWORK,
    "FlowControl-v1": NETWORK,
    "LoadBalancing-v1": {},
    "CentralLoadBalancing-v1": {},
    "JobAssignment-v0": {},
    "AcceleratorBalancing-v0": {},
}
WIDTHS = (8, 64, 512)
THREADS = 2
LEAST_S, MOST_S = 1.0, 4.0
ACTIONS = 16


def measure_twin_steps() -> list[dict[str, Any]]:
    """Measure every environment of `ENVS`, one at a time and in vectors."""
    dcgym.register_envs()
    return [_figures(name) for name in ENVS]


def _figures(name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"environment": name}
    for info in ("full", "none"):
        env = gym.make(f"dcgym/{name}", info=info, disable_env_checker=True, **ENVS[name])
        found[f"1, info {info}"] = _steps_per_s(env, 1)
    for copies in WIDTHS:
        found[f"{copies}"] = _steps_per_s(_vector(name, copies), copies)
        if ENVS[name] is NETWORK:
            threaded = _vector(name, copies, threads=THREADS)
            found[f"{copies}, {THREADS} threads"] = _steps_per_s(threaded, copies, THREADS)
        else:
            found[f"{copies}, {THREADS} threads"] = ""
    return found


def _vector(name: str, copies: int, **arguments: Any) -> Any:
    return gym.make_vec(
        f"dcgym/{name}",
        num_envs=copies,
        vectorization_mode="vector_entry_point",
        info="none",
        **ENVS[name],
        **arguments,
    )


def _steps_per_s(env: Any, copies: int, threads: int = 1) -> float:
    """Return the copies' steps a second of an episode, its reset included.

    Slow ones are stepped through a part of an episode.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    env.action_space.seed(0)
    env.reset(seed=0)  # what is built once belongs to no episode
    actions = [env.action_space.sample() for _ in range(ACTIONS)]
    length = env.spec.max_episode_steps
    reset_s = step_s = 0.0
    episodes = steps = 0
    while step_s < LEAST_S:
        begun_s = clock()
        env.reset()
        reset_s += clock() - begun_s
        episodes += 1
        for taken in itertools.count(1):
            action = actions[steps % ACTIONS]
            begun_s = clock()
            _, _, terminated, truncated, _ = env.step(action)
            step_s += clock() - begun_s
            steps += 1
            if np.any(terminated | truncated):
                length = taken
                break
            if step_s >= MOST_S:
                break
    env.close()
    length = length or steps  # not known ahead, nor seen: at most as much for the reset
    return float(copies * length / (reset_s / episodes + length * step_s / steps))
