"""Speed of environments over the twins, at their defaults: steps a second, resets included."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym

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
LEAST_S, MOST_S = 1.0, 5.0
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
    """Step through whole episodes for a second, or through a part of one for five."""
    clock = time.process_time if threads == 1 else time.perf_counter
    env.action_space.seed(0)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(ACTIONS)]
    steps, began_s = 0, clock()
    while True:
        _, _, terminated, truncated, _ = env.step(actions[steps % ACTIONS])
        steps += 1
        is_over = terminated or truncated if copies == 1 else (terminated | truncated).any()
        took_s = clock() - began_s
        if (is_over and took_s >= LEAST_S) or took_s >= MOST_S:
            break
        if is_over and copies == 1:
            env.reset()
    env.close()
    return copies * steps / took_s
