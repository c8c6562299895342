"""What every policy is, and what those that need to know their task share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    runtime_checkable,
)

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Action",
    "AnyAction",
    "BoundPolicy",
    "Drawing",
    "FloatArray",
    "Info",
    "Observation",
    "Overrides",
    "Policy",
    "task_of",
]

FloatArray: TypeAlias = npt.NDArray[np.float64]
Observation: TypeAlias = npt.NDArray[np.float32]
Action: TypeAlias = npt.NDArray[np.generic]
AnyAction: TypeAlias = Action | dict[str, Action]
"""An action, or its parts by name."""

# The values of an info are whatever its task puts there.
Info: TypeAlias = Mapping[str, Any]
Overrides: TypeAlias = dict[str, object]
"""Arguments of an environment."""


@runtime_checkable
class Policy(Protocol):
    """Something that acts.

    A classic policy may also configure the network, through `env_overrides`: keyword arguments
    for the environment, which must therefore be asked for before the environment is made.
    """

    name: str

    def env_overrides(self) -> Overrides:
        """Return arguments of the environment that belong to this policy."""
        ...

    def bind(self, env: object) -> Self:
        """Learn what the policy acts on; returns the policy.

        Args:
            env: The environment, under whatever wrappers, or its task.
        """
        ...

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return an action of the environment's action space.

        Args:
            observation: What `reset` or `step` returned last.
            info: The info that came with it.
        """
        ...


_Task = TypeVar("_Task")


class BoundPolicy(Generic[_Task]):
    """Holds the task that the policy acts in; the parameter is what it needs to know of it."""

    name = ""

    def __init__(self) -> None:
        self._task: _Task | None = None

    def env_overrides(self) -> Overrides:
        """Ask for nothing special."""
        return {}

    def bind(self, env: object) -> Self:
        """Learn what the policy acts on; returns the policy.

        Args:
            env: The environment, under whatever wrappers, or its task.
        """
        # Policies are found by the family of the task, which says what there is to know.
        self._task = cast(_Task, task_of(env))
        return self

    @property
    def task(self) -> _Task:
        """The task.

        Raises:
            ConfigError: It is not known yet.
        """
        if self._task is None:
            raise ConfigError("env", None, f"an environment: call {self.name}.bind(env) first")
        return self._task


class Drawing:
    """What the policies called "random" have beside that of their family: a generator.

    Args:
        seed: Its seed.
    """

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._generator = np.random.default_rng(seed)


def task_of(env: object) -> object:
    """Return the task of an environment below all wrappers; a task is returned as it is.

    Args:
        env: An environment of ours, or a task.
    """
    below = getattr(env, "unwrapped", env)
    return getattr(below, "task", below)
