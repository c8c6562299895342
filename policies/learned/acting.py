"""What loaded policies of every library share: one flat action, and the task that takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.policies.base import AnyAction, BoundPolicy, Info, Observation
from dcgym.policies.learned.flat import LearnedTask, flat_action_space, restore_action

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LearnedPolicy"]


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
            ValueError: The task's actions have another shape.
        """
        super().bind(env)
        shape = flat_action_space(self.task.action_space).shape
        if shape != self._shape:
            raise ValueError(f"the policy acts in shape {self._shape}, the env in {shape}")
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
