"""What every policy is."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = ["Action", "Policy", "Task", "env_overrides", "task_of"]

Action = npt.NDArray[np.float32]


@runtime_checkable
class Policy(Protocol):
    """Something that acts.

    A classic policy may also configure the network, through `env_overrides`: keyword arguments
    for the environment, which must therefore be asked for before the environment is made.
    """

    name: str

    def env_overrides(self) -> dict[str, Any]:
        """Return arguments of the environment that belong to this policy."""
        ...

    def bind(self, env: Any) -> Policy:
        """Learn which environment the policy acts in; returns the policy."""
        ...

    def act(
        self, observation: npt.NDArray[np.float32], info: dict[str, Any]
    ) -> Action | dict[str, Action]:
        """Return an action of the environment's action space."""
        ...


class Task(Protocol):
    """What a policy may know of an environment (the unwrapped one)."""

    topology: Any
    plan: Any
    action_map: Any
    action_space: Any


def task_of(env: Any) -> Any:
    """Return the environment below all wrappers."""
    return getattr(env, "unwrapped", env)


def env_overrides(name: str, family: str | None = None) -> dict[str, Any]:
    """Return the arguments of the environment that the named policy asks for."""
    from dcgym.policies.registry import make_policy

    return make_policy(name, family=family).env_overrides()
