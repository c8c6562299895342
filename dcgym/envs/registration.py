"""What Gymnasium is told about an id, as strings: nothing is imported before it is made."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any

import gymnasium as gym

if TYPE_CHECKING:
    from dcgym.envs.registry import Environment

__all__ = ["BUILT_IN", "add_environment", "register_envs"]

BUILT_IN: Mapping[str, bool] = {
    "dcgym/CongestionControl-v2": False,
    "dcgym/FlowControl-v1": False,
    "dcgym/Joint-v2": False,
    "dcgym/PathBalancing-v2": False,
    "dcgym/LoadBalancing-v1": True,
    "dcgym/CentralLoadBalancing-v1": True,
    "dcgym/JobAssignment-v0": True,
    "dcgym/AcceleratorBalancing-v0": True,
    "dcgym/VipPlacement-v0": True,
    "dcgym/DipPlacement-v0": True,
    "dcgym/VipMigration-v0": True,
}
"""The ids, and whether the default backend of each is deterministic.

A test compares `ENVIRONMENTS`.
"""

_PACKAGE = __name__.partition(".")[0]


def add_environment(environment: Environment) -> Environment:
    """Make an environment available by its id, in dcgym and in Gymnasium.

    Args:
        environment: The environment.

    Raises:
        ConfigError: The id is malformed or taken.
    """
    from dcgym.envs.registry import ENVIRONMENTS

    ENVIRONMENTS.add(environment.id, environment, environment.single.summary)
    maker = environment.single.default_maker
    _register_id(environment.id, maker is not None and maker.capabilities.deterministic)
    return environment


def _register_id(env_id: str, is_deterministic: bool) -> None:
    """Tell Gymnasium about an environment; a second call does nothing.

    Gymnasium gets no limit of steps: its wrapper would hold beside an argument ``max_steps`` that
    allows more. The environment ends its episodes itself, and its `spec` states the limit.

    Args:
        env_id: The id.
        is_deterministic: Whether its default backend is; the `spec` of a made environment says
            what its own backend is.
    """
    if env_id in gym.registry:
        return
    gym.register(
        env_id,
        entry_point="dcgym.envs.single:TaskEnv",
        vector_entry_point="dcgym.envs.vector:TaskVectorEnv",
        nondeterministic=not is_deterministic,
        kwargs={"env": env_id},
    )


def register_envs() -> None:
    """Register every environment of this package; a second call does nothing.

    Processes that Python's fork server starts know the ids too, where it starts later than this:
    those of Stable-Baselines3's `SubprocVecEnv` get an id, and import nothing that registers it.
    """
    for env_id, is_deterministic in BUILT_IN.items():
        _register_id(env_id, is_deterministic)
    # Modules that others have asked for stay; nothing public tells them.
    server: Any = forkserver._forkserver
    known = server._preload_modules
    if _PACKAGE not in known:
        multiprocessing.set_forkserver_preload([*known, _PACKAGE])
