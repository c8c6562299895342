"""What faces and suites see of a task on its backend: E copies, A agents in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Backend, Capabilities
from dcgym.backends.records import Fidelity, Record

__all__ = [
    "MOST_COPIES",
    "Actions",
    "BoundedEpisodes",
    "Caption",
    "FloatArray",
    "Info",
    "Mask",
    "MaskedActions",
    "Observations",
    "System",
    "TimeArray",
    "WholeSteps",
    "masks_of",
]

MOST_COPIES = 65_536
"""Copies of an environment that one system may have."""

FloatArray: TypeAlias = npt.NDArray[np.float64]
TimeArray: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Observations: TypeAlias = npt.NDArray[np.float32]
Actions: TypeAlias = Sequence[Sequence[Any]] | npt.NDArray[Any]
"""An action for each copy and agent, in this order."""
Info: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Caption:
    """What stands above a picture.

    Attributes:
        title: Name of the environment.
        time_s: Time since the first observation (`Session.time_s`).
        step: Number of steps since then.
        rewards: Reward of each agent in the last step; none before the first.
    """

    title: str
    time_s: float
    step: int
    rewards: tuple[float, ...]


class System(Protocol):
    """A task bound to a backend; `Session` says when it is asked for what."""

    @property
    def n_envs(self) -> int:
        """Number of copies E."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, the same in each copy."""

    @property
    def interval_ns(self) -> int:
        """Control interval; 0 runs freely."""

    @property
    def is_measured_at_once(self) -> bool:
        """Whether a new episode has an observation before its first interval."""

    @property
    def action_space(self) -> gym.Space[Any]:
        """Space of one agent's action."""

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Space of one agent's observation."""

    @property
    def observations(self) -> Observations:
        """What the agents see, shape (E, A, n); a new array at each measurement."""

    @property
    def terms(self) -> Mapping[str, FloatArray]:
        """Each reward term times its weight, shape (E, A)."""

    @property
    def read_ns(self) -> TimeArray:
        """When the present state was read, on the backend's clock, shape (E,)."""

    @property
    def state_labels(self) -> list[str]:
        """Name of each position of `state`."""

    @property
    def backend(self) -> Backend | None:
        """The backend; None where it has been closed or has failed."""

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do."""

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that `begin` takes."""

    def task(self, env: int = 0) -> Any:
        """Return the task of a copy, as policies see it."""

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode."""

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Begin an episode in each copy that has a seed; None leaves a copy as it is."""

    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Take the actions and put them in force; fresh copies keep what an episode begins with.

        Args:
            actions: An action for each copy and agent; None leaves copies that are not fresh as
                they are.
            fresh: Copies that have just begun, shape (E,).

        Returns:
            When they were in force, on the backend's clock, shape (E,).

        Raises:
            ConfigError: An action is not one of the action space; nothing is changed then.
        """

    def restart(self, mask: Mask) -> None:
        """Begin the present interval anew in some copies, (E,), and read when: `read_ns`.

        Their action came late, or after a picture; what happened before belongs to no interval.
        """

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); returns by how much each was missed, (E,)."""

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""

    def measure(self, mask: Mask) -> None:
        """Read the state of some copies, (E,), and work out what the interval led to."""

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval, one number a copy, each of shape (E,)."""

    def finish(self, mask: Mask) -> None:
        """Do what the settings ask for at the end of episodes, of the copies in the mask, (E,)."""

    def finished(self) -> Mask:
        """Tell in which copies nothing is left to do, (E,)."""

    def info(self, env: int, agent: int) -> Info:
        """Return what an agent is told beside its observation."""

    def infos(self) -> Info:
        """Return what `info` says of every copy and agent, as arrays of shape (E, A, ...)."""

    def state(self, env: int) -> FloatArray:
        """Return what a critic of all agents of a copy may see, from -1 to 1, shape (S,)."""

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the flows of a copy that have ended, as its backend records them."""

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy's episode."""

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of what a copy's last interval led to; None before the first episode.

        It is drawn from what was read at the end of the interval: the backend is not asked.
        """

    def close(self) -> None:
        """End the backend; the next `begin` makes a new one."""


@runtime_checkable
class WholeSteps(Protocol):
    """What a `System` may have beside: a step of all copies in one call, where time waits."""

    @property
    def has_whole_steps(self) -> bool:
        """Whether it has, with its task and backend."""

    def whole_step(self, actions: Actions, until_ns: TimeArray) -> Mask:
        """Do what `act`, `advance` and `measure` do; no copy has just begun, and none is late.

        Args:
            actions: An action for each copy and agent.
            until_ns: When the interval of each copy ends, (E,).

        Returns:
            What `finished` returns thereafter, (E,).

        Raises:
            ConfigError: An action is not one of the action space; nothing is changed then.
        """


@runtime_checkable
class BoundedEpisodes(Protocol):
    """What a `System` may have beside: what is drawn for an episode depends on its length."""

    def bound(self, max_steps: int | None) -> None:
        """Give the following episodes so many steps; None for no limit."""


@runtime_checkable
class MaskedActions(Protocol):
    """What a `System` may have beside: some of its discrete actions are not feasible now."""

    @property
    def has_action_masks(self) -> bool:
        """Whether it has, with its task."""

    def action_masks(self) -> Mask:
        """Return which actions are feasible, (E, A, n)."""


def masks_of(system: System) -> Callable[[], Mask]:
    """Return what tells which actions of a system are feasible, (E, A, n).

    Args:
        system: The task on its backend.

    Raises:
        AttributeError: All its actions are feasible at any time, and there are no masks.
    """
    if not isinstance(system, MaskedActions) or not system.has_action_masks:
        raise AttributeError("no attribute 'action_masks': all actions are feasible at any time")
    return system.action_masks
