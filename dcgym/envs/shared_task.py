"""What systems have in common whose copies share one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities
from dcgym.envs.system import Mask

__all__ = ["DescribedTask", "SharedTask", "drawn_seeds"]


class DescribedTask(Protocol):
    """What a task says of itself."""

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that an episode takes."""

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode."""


Task = TypeVar("Task", bound=DescribedTask)


class SharedTask(Generic[Task]):
    """The part of `dcgym.envs.system.System` that such a task answers alone.

    Attributes:
        _task: The task.
        _capabilities: Of its backend.
    """

    _task: Task
    _capabilities: Capabilities

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do."""
        return self._capabilities

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""
        return self._task.observation_labels

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that `begin` takes."""
        return self._task.options

    def task(self, env: int = 0) -> Task:
        """Return the task, the same for every copy."""
        return self._task

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode."""
        return self._task.draw_seed(generator)


def drawn_seeds(seeds: Sequence[int | None], paths: str) -> tuple[Mask, npt.NDArray[np.uint64]]:
    """Return which copies begin an episode, and their seeds, 0 for the others.

    Args:
        seeds: Seeds of the copies; None leaves one as it is.
        paths: "shared": copies that begin together take the first one's seed; or "own".
    """
    mask = np.array([seed is not None for seed in seeds], np.bool_)
    drawn = np.array([0 if seed is None else seed for seed in seeds], np.uint64)
    if paths == "shared" and mask.any():
        drawn[mask] = drawn[mask][0]
    return mask, drawn
