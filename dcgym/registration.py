"""The environment ids, in one place, as strings: nothing is imported before it is made."""

from __future__ import annotations

import gymnasium as gym

__all__ = ["ENV_IDS", "MAX_EPISODE_STEPS", "register_envs"]

MAX_EPISODE_STEPS = 200

_ENTRY_POINTS = {
    "dcgym/CongestionControl-v0": "dcgym.envs.congestion_control:CongestionControlEnv",
    "dcgym/Joint-v0": "dcgym.envs.joint:JointEnv",
    "dcgym/PathBalancing-v0": "dcgym.envs.path_balancing:PathBalancingEnv",
}

ENV_IDS = tuple(_ENTRY_POINTS)


def register_envs() -> None:
    """Register every environment; a second call does nothing."""
    for env_id, entry_point in _ENTRY_POINTS.items():
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point=entry_point,
                max_episode_steps=MAX_EPISODE_STEPS,
                # Real kernels and real time: the same seed does not give the same bytes.
                nondeterministic=True,
            )
