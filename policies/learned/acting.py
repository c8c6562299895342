"""Trained networks as policies: one flat action, and the task that takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.policies.base import AnyAction, BoundPolicy, Info, Observation
from dcgym.policies.learned.actor import Actor
from dcgym.policies.learned.flat import LearnedTask, flat_action_space, restore_action

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ActorPolicy", "LearnedPolicy"]


TRAINED = "this one was trained in another environment"


class LearnedPolicy(BoundPolicy[LearnedTask]):
    """A trained network; the subclass says what it answers to an observation."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        """Begin without a task.

        Args:
            name: Name of the policy.
            shape: Shape of its actions.
        """
        super().__init__()
        self.name = name
        self._shape = shape

    def bind(self, env: object) -> Self:
        """Check that the task takes this policy's actions; returns the policy.

        Args:
            env: The environment, under whatever wrappers, or its task.

        Raises:
            ConfigError: The task's actions have another shape.
        """
        super().bind(env)
        shape = flat_action_space(self.task.action_space).shape
        if shape != self._shape:
            raise ConfigError("policy", self.name, f"one with actions of shape {shape}; {TRAINED}")
        return self

    def act(self, observation: Observation, info: Info) -> AnyAction:
        """Return what the network answers, as an action of the task.

        Args:
            observation: What `reset` or `step` returned last.
            info: Not looked at.
        """
        return restore_action(self.task.action_space, self.infer(observation))

    def infer(self, observation: Observation) -> npt.NDArray[np.float32]:
        """Return the network's action as one flat array.

        Args:
            observation: What `reset` or `step` returned last.
        """
        raise NotImplementedError


class ActorPolicy(LearnedPolicy):
    """What acts as a checkpoint says, without noise."""

    def __init__(self, name: str, actor: Actor) -> None:
        """Wrap a network.

        Args:
            name: Name of the policy.
            actor: The network.
        """
        super().__init__(name, actor.low.shape)
        self._actor = actor

    def bind(self, env: object) -> Self:
        """Check that the task has this network's observations and actions; returns the policy.

        Args:
            env: The environment, under whatever wrappers, or its task.

        Raises:
            ConfigError: It has others.
        """
        super().bind(env)
        shape, own = self.task.observation_space.shape, (self._actor.observation_size,)
        if shape != own:
            allowed = f"one that sees observations of shape {shape}, not {own}; {TRAINED}"
            raise ConfigError("policy", self.name, allowed)
        return self

    def infer(self, observation: Observation) -> npt.NDArray[np.float32]:
        """Return the network's action as one flat array.

        Args:
            observation: What `reset` or `step` returned last.
        """
        return self._actor.act(observation)
