"""Slots of a vector environment one by one, for what reads and sets them as environments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import seeding

from dcgym.envs.face import Face
from dcgym.envs.system import masks_of
from dcgym.envs.values import FloatArray, Mask, Observation
from dcgym.errors import ConfigError
from dcgym.tasks.common.settings import TaskSettings

__all__ = ["Slot", "SlottedVectorEnv"]


class Slot(Face):
    """One slot of a vector environment, in place of an environment of its own.

    Its attributes are those of a single environment, without `reset`, `step` and `close`, which all
    slots do together. Further ones may be set, and stay.

    Args:
        envs: The vector environment.
        number: Of the slot.

    Attributes:
        action_space: Space of its actions.
        observation_space: Space of its observations.
        metadata: Render modes, and pictures per second.
        render_mode: What `render` returns.
    """

    # As there, the attribute itself: a slot has no wrappers.
    get_wrapper_attr = gym.Env.get_wrapper_attr
    has_wrapper_attr = gym.Env.has_wrapper_attr
    set_wrapper_attr = gym.Env.set_wrapper_attr

    def __init__(self, envs: SlottedVectorEnv, number: int) -> None:
        self._envs, self.session = envs, envs.session
        self._copy, self._agent = divmod(number, envs.slots_per_copy)
        self.action_space = envs.single_action_space
        self.observation_space = envs.single_observation_space
        self.metadata = envs.metadata
        self.render_mode = envs.render_mode

    @property
    def unwrapped(self) -> Slot:
        """The slot itself."""
        return self

    @property
    def settings(self) -> TaskSettings:
        """The arguments of the environment, checked."""
        return self._envs.settings

    @property
    def spec(self) -> EnvSpec | None:
        """The specification of the environment."""
        return self._envs.spec

    @property
    def np_random(self) -> np.random.Generator:
        """What the seeds of the copy's episodes are drawn from."""
        return self._envs.chance[self._copy][0]

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        # -1, as Gymnasium says it of a generator whose seed is not known.
        self._envs.chance[self._copy] = (generator, -1)

    @property
    def np_random_seed(self) -> int:
        """Seed of `np_random`; -1 where it is not known."""
        return self._envs.chance[self._copy][1]

    @property
    def action_masks(self) -> Callable[[], Mask]:
        """What returns which actions are feasible now, (n,); only where some may not be."""
        masks = masks_of(self.system)
        return lambda: masks()[self._copy, self._agent]

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return a picture of the copy, or None where the render mode asks for none."""
        if self.render_mode is None:
            return None
        return self.session.render(self._copy, self._envs.title)


class SlottedVectorEnv(Face, gym.vector.VectorEnv[Observation, object, FloatArray | Mask]):
    """A vector environment with one session, whose slots can be read and set as environments.

    It has what Gymnasium's `SyncVectorEnv` has for that.

    Attributes:
        settings: The arguments, checked.
        slots_per_copy: Slots that a copy fills: its agents, or 1.
        title: Name of the environment, for pictures.
    """

    settings: TaskSettings
    slots_per_copy: int
    title: str

    @cached_property
    def chance(self) -> list[tuple[np.random.Generator, int]]:
        """Of each copy what the seeds of its episodes are drawn from, and its own seed."""
        return [seeding.np_random(None) for _ in range(self.system.n_envs)]

    @cached_property
    def envs(self) -> list[Slot]:
        """The slots one by one, with the attributes of single environments."""
        return [Slot(self, number) for number in range(self.num_envs)]

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """What the seeds of the episodes of each slot are drawn from."""
        return tuple(slot.np_random for slot in self.envs)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """Seed of each of `np_random`; -1 where it is not known."""
        return tuple(slot.np_random_seed for slot in self.envs)

    @property
    def action_masks(self) -> Callable[[], Mask]:
        """What returns which actions are feasible now, (num_envs, n); only where some may not be.

        MaskablePPO of sb3-contrib asks for it by this name.
        """
        masks = masks_of(self.system)
        return lambda: masks().reshape(self.num_envs, -1)

    def call(self, name: str, *args: object, **kwargs: object) -> tuple[Any, ...]:
        """Call a method of each slot, or return an attribute of each (`SyncVectorEnv.call`).

        Args:
            name: Of a method or an attribute of single environments.
            *args: Arguments of the method.
            **kwargs: Its arguments by name.

        Raises:
            AttributeError: There is none. Slots reset, step and close together alone.
        """
        if name == "action_masks":
            # The system works them out for all slots at once.
            return tuple(self.action_masks())
        found = [getattr(slot, name) for slot in self.envs]
        return tuple(one(*args, **kwargs) if callable(one) else one for one in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each slot, as `call` does.

        Args:
            name: Of an attribute of single environments.

        Raises:
            AttributeError: There is none.
        """
        return self.call(name)

    def set_attr(self, name: str, values: object) -> None:
        """Set an attribute of each slot (`SyncVectorEnv.set_attr`).

        Args:
            name: Of the attribute.
            values: A list or a tuple of one for each slot, or one for all.

        Raises:
            ConfigError: Another number of values.
            AttributeError: It belongs to all slots, and cannot be set.
        """
        each = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ConfigError("values", values, f"one for each of {self.num_envs} slots")
        for slot, value in zip(self.envs, each, strict=True):
            setattr(slot, name, value)

    def render(self) -> tuple[npt.NDArray[np.uint8] | None, ...]:  # type: ignore[override]
        """Return a picture of each slot, or None where the render mode asks for none."""
        return self.call("render")
