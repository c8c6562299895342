"""Environments as learners want them: one flat action, many copies side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import gymnasium as gym

from dcgym.backends.base import Capabilities
from dcgym.envs.factory import make_env, make_vec_env
from dcgym.policies.learned.flat import LearnedTask, flat_action_space, restore_action
from dcgym.tasks.common.rows import RowLayout

__all__ = ["TrainingForm", "build_env", "build_running_env", "build_slots", "training_form"]


class TrainedTask(LearnedTask, Protocol):
    """What decides how a task is trained."""

    @property
    def agents(self) -> Sequence[str]:
        """Names of the agents, all of which act alike."""
        ...

    @property
    def rows(self) -> RowLayout | None:
        """Layout of the observation, where it is a table."""
        ...


class TrainedEnv(Protocol):
    """An environment of ours below all wrappers."""

    @property
    def task(self) -> TrainedTask:
        """What it decides about."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What its backend can do."""
        ...


@dataclass(frozen=True)
class TrainingForm:
    """How copies of an environment are trained side by side.

    Attributes:
        is_vector: Whether one call in this process steps all copies, a slot for each agent of each;
            otherwise each copy is an environment in a process of its own.
        n_copies: Number of copies.
        n_slots: Number of places that one policy acts in.
        rows: Layout of the observation, where it is a table.
    """

    is_vector: bool
    n_copies: int
    n_slots: int
    rows: RowLayout | None


def training_form(config: Mapping[str, object], n_envs: int) -> TrainingForm:
    """Decide how an environment is trained, by its backend and its agents.

    Args:
        config: Arguments of `make_env`.
        n_envs: Copies that are wanted.
    """
    env = _below(make_env(dict(config)))
    task, capabilities = env.task, env.capabilities
    n_agents = len(task.agents)
    can_step_together = capabilities.copies > 1 and not capabilities.real_time
    if not can_step_together and n_agents == 1:
        return TrainingForm(False, n_envs, n_envs, task.rows)
    # Copies in real time would take the processors from each other: the agents of one do.
    n_copies = min(n_envs, capabilities.copies) if can_step_together else 1
    return TrainingForm(True, n_copies, n_copies * n_agents, task.rows)


def build_env(config: Mapping[str, object]) -> gym.Env[Any, Any]:
    """Build an environment in whatever process this is called in; its actions are one Box.

    Args:
        config: Arguments of `make_env`.
    """
    env = make_env(dict(config))
    if not isinstance(env.action_space, gym.spaces.Dict):
        return env
    task = _below(env).task
    return gym.wrappers.TransformAction(
        env, lambda action: restore_action(task, action), flat_action_space(task)
    )


def build_running_env(config: Mapping[str, object]) -> gym.Env[Any, Any]:
    """Build an environment whose backend runs: building it is no training time.

    Args:
        config: Arguments of `make_env`.
    """
    env = build_env(config)
    env.reset()
    return env


def build_slots(
    config: Mapping[str, object], form: TrainingForm
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Build a vector environment with a slot for each agent of each copy.

    Args:
        config: Arguments of `make_env`.
        form: What `training_form` decided.
    """
    return make_vec_env(dict(config), form.n_slots, is_shared=True, has_infos=False)


def _below(env: gym.Env[Any, Any]) -> TrainedEnv:
    return cast(TrainedEnv, env.unwrapped)
