"""Trained networks as policies: one flat action, and the task that takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.policies.base import Action, AnyAction, BoundPolicy, Info, Observation
from dcgym.policies.learned.actor import Actor
from dcgym.policies.learned.flat import (
    LearnedTask,
    action_bounds,
    flat_action_space,
    restore_action,
)
from dcgym.policies.learned.view import History, View
from dcgym.tasks.common.features import label_columns
from dcgym.tasks.common.rows import RowLayout

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ActorPolicy", "LearnedPolicy"]


TRAINED = "this one was trained in another environment"


class LearnedPolicy(BoundPolicy[LearnedTask]):
    """A trained network; the subclass says what it answers to an observation.

    Attributes:
        mask: Which actions are feasible now, where the environment says so.
    """

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        """Begin without a task.

        Args:
            name: Name of the policy.
            shape: Shape of its actions.
        """
        super().__init__()
        self.name = name
        self._shape = shape
        self.mask: npt.ArrayLike | None = None

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
            info: Its `steps` of 0 begin an episode.
        """
        if info.get("steps") == 0:
            self.begin()
        self.mask = info.get("action_mask")
        return restore_action(self.task.action_space, self.infer(observation))

    def begin(self) -> None:
        """Forget the episode so far; what remembers nothing has nothing to do."""

    def infer(self, observation: Observation) -> Action:
        """Return the network's action as one flat array.

        Args:
            observation: What `reset` or `step` returned last.
        """
        raise NotImplementedError


class ActorPolicy(LearnedPolicy):
    """What acts as a checkpoint says, without noise.

    Attributes:
        actor: The network.
    """

    def __init__(self, name: str, actor: Actor, columns: Sequence[str] = ()) -> None:
        """Wrap a network.

        Args:
            name: Name of the policy.
            actor: The network.
            columns: What the rows of its observations hold; none where that is not known.
        """
        super().__init__(name, actor.low.shape)
        self.actor, self._columns = actor, tuple(columns)
        self.begin()

    def bind(self, env: object) -> Self:
        """Check that the task has this network's observations and actions; returns the policy.

        A network without constants for its rows takes any number of them.

        Args:
            env: The environment, under whatever wrappers, or its task.

        Raises:
            ConfigError: It has others.
        """
        self._task = None
        BoundPolicy.bind(self, env)
        self._fit(getattr(self.task, "rows", None))
        super().bind(env)
        self.check_columns(self.task.observation_labels)
        space, actor = flat_action_space(self.task.action_space), self.actor
        if action_bounds(space)[2] != actor.choices:
            allowed = f"one with actions of {space}; {TRAINED}"
            raise ConfigError("policy", self.name, allowed)
        shape, own = self.task.observation_space.shape, (actor.observation_size,)
        if shape != own:
            allowed = f"one that sees observations of shape {shape}, not {own}; {TRAINED}"
            raise ConfigError("policy", self.name, allowed)
        return self

    def check_columns(self, labels: Sequence[str], field: str = "policy") -> None:
        """Refuse observations that hold something else than those it was trained with.

        Args:
            labels: Label of each of their positions.
            field: What the error names.

        Raises:
            ConfigError: They do.
        """
        here = label_columns(labels)
        if self._columns and here != self._columns:
            allowed = f"one that sees {', '.join(here)}; {TRAINED}, with {', '.join(self._columns)}"
            raise ConfigError(field, self.name, allowed)

    def begin(self) -> None:
        """Forget the episode so far."""
        view = self.actor.view
        self._history = History(view or View(self.actor.observation_size))
        self._is_first = np.ones(1, np.bool_)
        self._state = self.actor.begin()

    def infer(self, observation: Observation) -> Action:
        """Return the network's action as one flat array.

        Args:
            observation: What `reset` or `step` returned last.
        """
        shown = self._history.push(observation[None], self._is_first)[0]
        self._is_first[:] = False
        masked = self.actor.is_masked and self.mask is not None
        mask = np.asarray(self.mask, np.bool_) if masked else None
        self._state = self.actor.remember(shown, self._state)
        return self.actor.act(self._state[0] if self._state else shown, mask)

    def _fit(self, rows: RowLayout | None) -> None:
        mine = self.actor.rows if self.actor.view is None else self.actor.view.rows
        if rows is None or mine is None or mine == rows or self.actor.constants.size:
            return
        try:
            self.actor = self.actor.resized(rows)
        except ConfigError:
            return  # The checks that follow say what does not fit.
        self._shape = self.actor.low.shape
        self.begin()
