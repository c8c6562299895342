"""What Gymnasium is told about an id, as strings: nothing is imported before it is made."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym

__all__ = ["BUILT_IN", "register_envs", "register_id"]

BUILT_IN: Mapping[str, tuple[int | None, bool]] = {
    "dcgym/CongestionControl-v2": (200, False),
    "dcgym/FlowControl-v1": (200, False),
    "dcgym/Joint-v2": (200, False),
    "dcgym/PathBalancing-v2": (200, False),
    "dcgym/LoadBalancing-v1": (240, True),
    "dcgym/CentralLoadBalancing-v1": (240, True),
    "dcgym/JobAssignment-v0": (None, True),
    "dcgym/AcceleratorBalancing-v0": (100, True),
    "dcgym/VipPlacement-v0": (None, True),
    "dcgym/DipPlacement-v0": (None, True),
    "dcgym/VipMigration-v0": (None, True),
}
"""Time limit in steps of each id, None for none, and whether its default backend is deterministic.

A test compares `ENVIRONMENTS`.
"""


def register_id(env_id: str, max_episode_steps: int | None, is_deterministic: bool) -> None:
    """Tell Gymnasium about an environment; a second call does nothing.

    Args:
        env_id: The id.
        max_episode_steps: Steps until truncation; None where episodes end by themselves.
        is_deterministic: Whether its default backend is; the `spec` of a made environment says
            what its own backend is.
    """
    if env_id in gym.registry:
        return
    gym.register(
        env_id,
        entry_point="dcgym.envs.single:TaskEnv",
        vector_entry_point="dcgym.envs.vector:TaskVectorEnv",
        max_episode_steps=max_episode_steps,
        nondeterministic=not is_deterministic,
        kwargs={"env": env_id},
    )


def register_envs() -> None:
    """Register every environment of this package; a second call does nothing."""
    for env_id, (max_episode_steps, is_deterministic) in BUILT_IN.items():
        register_id(env_id, max_episode_steps, is_deterministic)
