"""Environments as learners want them: one flat action, many copies side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space

from dcgym.config import check_keys
from dcgym.envs.drawn import largest_rows
from dcgym.envs.factory import DEFAULT_ENV, find_environment, make_env, make_vec_env
from dcgym.policies.learned.flat import (
    FlatEnv,
    FlatSlots,
    FlatSpace,
    flat_action_space,
    from_unit,
    restore_action,
    unit_action_space,
)
from dcgym.policies.learned.mending import MendedEnv
from dcgym.policies.learned.shaping import ShapedEnv, ShapedSlots, Shaping
from dcgym.policies.learned.view import View
from dcgym.policies.learned.viewed import ViewedEnv, ViewedSlots
from dcgym.policies.learners import EnvConfig
from dcgym.tasks.common.rows import RowLayout

__all__ = [
    "TrainingForm",
    "UnitVectorActions",
    "build_env",
    "build_running_env",
    "build_slots",
    "training_form",
]


@dataclass(frozen=True)
class TrainingForm:
    """How copies of an environment are trained side by side.

    Attributes:
        is_vector: Whether one call in this process steps all copies, a slot for each agent of each;
            otherwise each copy is an environment in a process of its own.
        n_copies: Number of copies.
        n_slots: Number of places that one policy acts in.
        rows: Layout of the observation, where it is a table.
        observation_size: Length of one agent's observation.
        action_space: Actions of one agent, in one part.
        labels: Label of each position of one agent's observation.
        in_real_time: Whether the copies wait for real time.
    """

    is_vector: bool
    n_copies: int
    n_slots: int
    rows: RowLayout | None
    observation_size: int
    action_space: FlatSpace
    labels: tuple[str, ...] = ()
    in_real_time: bool = False


def training_form(config: EnvConfig, n_envs: int) -> TrainingForm:
    """Decide how an environment is trained, by its backend and its agents.

    Args:
        config: Arguments of `make_env`.
        n_envs: Copies that are wanted.

    Raises:
        ConfigError: An argument is not allowed, or actions are of a kind that nobody learns.
    """
    environment = find_environment(config.get("env", DEFAULT_ENV))
    form = environment.single
    given = {name: value for name, value in config.items() if name != "env"}
    check_keys(given, form.arguments, "config")
    settings = form.read(given)
    if environment.agents is not None:
        # Refuses what only the form of one agent has.
        form.agent_names(settings)
        form = environment.agents
        settings = form.read({n: v for n, v in given.items() if n in form.arguments})
    system = form.make(settings, 1)
    can, n_agents = system.capabilities, len(system.agents)
    rows = largest_rows(system)
    labels = tuple(system.observation_labels)
    system.close()
    size = int(np.prod(system.observation_space.shape))
    # The libraries would refuse a space in their own words, in processes of their own.
    spaces = rows, size, flat_action_space(system.action_space), labels, can.real_time
    if can.real_time and environment.agents is None:
        return TrainingForm(False, n_envs, n_envs, *spaces)
    # Copies in real time would take the processors from each other: the agents of one do.
    n_copies = 1 if can.real_time else min(n_envs, can.copies)
    return TrainingForm(True, n_copies, n_copies * n_agents, *spaces)


def build_env(config: EnvConfig) -> FlatEnv:
    """Build an environment in whatever process this is called in.

    Args:
        config: Arguments of `make_env`.

    Returns:
        The environment; its actions are one Box from -1 to 1, or choices.
    """
    env = make_env(dict(config))
    space, flat = env.action_space, flat_action_space(env.action_space)
    unit = unit_action_space(flat)
    if unit == space or not isinstance(unit, gym.spaces.Box):
        return env
    return gym.wrappers.TransformAction(
        env, lambda action: restore_action(space, from_unit(flat, np.asarray(action))), unit
    )


def build_running_env(
    config: EnvConfig, view: View | None = None, shaping: Shaping | None = None
) -> FlatEnv:
    """Build an environment whose backend runs: building it is no training time.

    Args:
        config: Arguments of `make_env`.
        view: How observations are shown; None for one at a time as it is.
        shaping: What is paid for beside the rewards; None for nothing.

    Raises:
        BackendError: The backend did not come up.
    """
    env: FlatEnv = MendedEnv(build_env(config))
    if shaping is not None:
        env = ShapedEnv(env, shaping)
    if view is not None:
        env = ViewedEnv(env, view)
    env.reset()
    return env


def build_slots(
    config: EnvConfig,
    form: TrainingForm,
    view: View | None = None,
    shaping: Shaping | None = None,
) -> FlatSlots:
    """Build a vector environment with a slot for each agent of each copy.

    Args:
        config: Arguments of `make_env`.
        form: What `training_form` decided.
        view: How observations are shown; None for one at a time as it is.
        shaping: What is paid for beside the rewards; None for nothing.

    Returns:
        The environment; its actions are one Box from -1 to 1, or choices.
    """
    environment = find_environment(config.get("env", DEFAULT_ENV))
    agents = environment.agents
    # All agents learn: which of them is the agent, and what the others do, has no meaning here.
    names = ["env", *(agents or environment.single).arguments]
    given = {name: value for name, value in config.items() if name in names}
    envs = make_vec_env(given, form.n_slots, is_shared=agents is not None, info="none")
    if envs.single_action_space != unit_action_space(form.action_space):
        envs = UnitVectorActions(envs)
    if shaping is not None:
        envs = ShapedSlots(envs, shaping)
    return envs if view is None else ViewedSlots(envs, view)


class UnitVectorActions(gym.vector.VectorActionWrapper):
    """Takes a batch of points of one Box from -1 to 1 for actions of other bounds or parts."""

    def __init__(self, env: FlatSlots) -> None:
        """Wrap a vector environment.

        Args:
            env: One whose actions are numbers within bounds, or a Dict of them.
        """
        super().__init__(env)
        self._flat = flat_action_space(env.single_action_space)
        self.single_action_space = unit_action_space(self._flat)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def actions(self, actions: Any) -> Any:
        """Return each slot's action; parts of it by name.

        Args:
            actions: A point of the Box for each slot.
        """
        flat, space = from_unit(self._flat, actions), self.env.single_action_space
        if not isinstance(space, gym.spaces.Dict):
            return flat
        each = [gym.spaces.unflatten(space, action) for action in flat]
        return {name: np.stack([one[name] for one in each]) for name in space}
