"""The environment ids, in one place, as strings: nothing is imported before it is made."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym

__all__ = ["ENV_IDS", "MAX_EPISODE_STEPS", "register_envs"]

MAX_EPISODE_STEPS = 200


@dataclass(frozen=True)
class _Registration:
    """What Gymnasium is told about an id.

    Attributes:
        entry_point: Module and class.
        vector_entry_point: The same, of the native vector environment.
        max_episode_steps: Steps until truncation.
        nondeterministic: Real kernels and real time: the same seed does not give the same bytes.
    """

    entry_point: str
    vector_entry_point: str | None = None
    max_episode_steps: int = MAX_EPISODE_STEPS
    nondeterministic: bool = False


_REGISTRATIONS = {
    "dcgym/CongestionControl-v0": _Registration(
        "dcgym.envs.congestion_control:CongestionControlEnv", nondeterministic=True
    ),
    "dcgym/Joint-v0": _Registration("dcgym.envs.joint:JointEnv", nondeterministic=True),
    "dcgym/PathBalancing-v0": _Registration(
        "dcgym.envs.path_balancing:PathBalancingEnv", nondeterministic=True
    ),
    "dcgym/LoadBalancing-v0": _Registration(
        "dcgym.envs.load_balancing:LoadBalancingEnv",
        "dcgym.envs.load_balancing_vector:LoadBalancingVectorEnv",
        max_episode_steps=240,
    ),
    "dcgym/CentralLoadBalancing-v0": _Registration(
        "dcgym.envs.load_balancing:CentralLoadBalancingEnv",
        "dcgym.envs.load_balancing_vector:CentralLoadBalancingVectorEnv",
        max_episode_steps=240,
    ),
}

ENV_IDS = tuple(_REGISTRATIONS)


def register_envs() -> None:
    """Register every environment; a second call does nothing."""
    for env_id, registration in _REGISTRATIONS.items():
        if env_id not in gym.registry:
            gym.register(env_id, **vars(registration))
