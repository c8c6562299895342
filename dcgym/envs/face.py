"""What all faces of a system have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec

from dcgym.backends.base import Backend
from dcgym.envs.session import Session
from dcgym.envs.system import System

__all__ = ["Face", "fitting_spec", "frames_per_second"]


class Face:
    """A session, and what may be known of it.

    Attributes:
        session: The copies and their clock.
    """

    session: Session

    @property
    def system(self) -> System:
        """The task on its backend."""
        return self.session.system

    @property
    def task(self) -> Any:
        """The task of the first copy, as policies see it."""
        return self.system.task()

    @property
    def backend(self) -> Backend | None:
        """The backend, or None after `close` or a failure."""
        return self.system.backend

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""
        return self.system.observation_labels

    def flow_records(self) -> npt.NDArray[np.void]:
        """Return the flows of the first copy that have ended (`System.flow_records`)."""
        return self.system.flow_records(0)


def fitting_spec(spec: EnvSpec | None, system: System, max_steps: int | None) -> EnvSpec | None:
    """Return a specification with what is not known before the environment is made.

    Args:
        spec: What is registered, or None.
        system: The task on its backend, which is deterministic or not.
        max_steps: Steps of an episode; None for no limit.
    """
    if spec is None:
        return None
    is_random = not system.capabilities.deterministic
    return replace(spec, nondeterministic=is_random, max_episode_steps=max_steps)


def frames_per_second(system: System) -> float:
    """Return how many steps a second has, for films in real time; 20 where it runs freely.

    It is whole where that is exact, as 20 for steps of 50 ms.

    Args:
        system: The task on its backend.
    """
    if not system.interval_ns:
        return 20
    per_second = 1e9 / system.interval_ns
    return int(per_second) if per_second.is_integer() else per_second
