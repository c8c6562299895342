"""What all faces of a system have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec

from dcgym.backends.base import Lifecycle
from dcgym.backends.records import Record
from dcgym.config import check_int, check_list
from dcgym.envs.drawn import own_system
from dcgym.envs.plain import plain_arguments
from dcgym.envs.session import Session
from dcgym.envs.system import System
from dcgym.units import read_number

__all__ = ["Face", "fitting_spec", "frames_per_second", "seeds_of_copies"]


class Face:
    """A session, and what may be known of one of its copies: the first, where it has several.

    Attributes:
        session: The copies and their clock.
    """

    session: Session
    _copy = 0

    @property
    def system(self) -> System:
        """The task on its backend."""
        return self.session.system

    @property
    def task(self) -> Any:
        """The task of the copy, as policies see it."""
        return self.system.task(self._copy)

    @property
    def backend(self) -> Lifecycle | None:
        """The backend, of the copy where each has its own; None after `close` or a failure."""
        return own_system(self.system, self._copy).backend

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""
        return self.system.observation_labels

    def flow_records(self) -> npt.NDArray[np.void]:
        """Return the flows of the copy that have ended (`System.flow_records`)."""
        return self.system.flow_records(self._copy)

    def event_records(self) -> list[Record]:
        """Return the events of the copy's episode so far (`System.event_records`)."""
        return self.system.event_records(self._copy)


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
    arguments = plain_arguments(spec.kwargs)
    return replace(spec, nondeterministic=is_random, max_episode_steps=max_steps, kwargs=arguments)


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


def seeds_of_copies(seed: object, n_copies: int) -> list[int | None]:
    """Return the seed of each copy; None keeps the generator that the copy has.

    Args:
        seed: The seed of the first copy, the others following on it; one for each copy; or None.
        n_copies: Number of copies.

    Raises:
        ConfigError: It is something else.
    """
    if seed is None:
        return [None] * n_copies
    if read_number(seed) is not None:
        first = check_int("seed", seed, 0)
        return [first + i for i in range(n_copies)]
    allowed = f"one number, or one for each of the {n_copies} copies"
    given = check_list("seed", seed, allowed, (n_copies,))
    return [None if one is None else check_int("seed", one, 0) for one in given]
