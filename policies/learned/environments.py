"""Environments as learners want them: one flat action, many copies side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space

from dcgym.envs.factory import DEFAULT_ENV, find_environment, make_env, make_vec_env
from dcgym.policies.learned.flat import flat_action_space, restore_action
from dcgym.policies.learned.mending import MendedEnv
from dcgym.policies.learners import EnvConfig
from dcgym.tasks.common.rows import RowLayout

__all__ = [
    "FlatVectorActions",
    "TrainingForm",
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
    """

    is_vector: bool
    n_copies: int
    n_slots: int
    rows: RowLayout | None


def training_form(config: EnvConfig, n_envs: int) -> TrainingForm:
    """Decide how an environment is trained, by its backend and its agents.

    Args:
        config: Arguments of `make_env`.
        n_envs: Copies that are wanted.

    Raises:
        ConfigError: An argument is not allowed, or actions are not continuous.
    """
    # Refuses wrong arguments, also those that only the form of one agent has.
    env = make_env(dict(config))
    env.close()  # type: ignore[no-untyped-call]
    # The libraries would say it in their own words, in processes of their own.
    flat_action_space(env.action_space)
    environment = find_environment(config.get("env", DEFAULT_ENV))
    form = environment.agents or environment.single
    given = {name: value for name, value in config.items() if name in form.arguments}
    system = form.make(form.settings(**given), 1)
    can, n_agents, rows = system.capabilities, len(system.agents), system.task().rows
    system.close()
    if can.real_time and environment.agents is None:
        return TrainingForm(False, n_envs, n_envs, rows)
    # Copies in real time would take the processors from each other: the agents of one do.
    n_copies = 1 if can.real_time else min(n_envs, can.copies)
    return TrainingForm(True, n_copies, n_copies * n_agents, rows)


def build_env(config: EnvConfig) -> gym.Env[Any, Any]:
    """Build an environment in whatever process this is called in; its actions are one Box.

    Args:
        config: Arguments of `make_env`.
    """
    env = make_env(dict(config))
    if not isinstance(env.action_space, gym.spaces.Dict):
        return env
    space = env.action_space
    return gym.wrappers.TransformAction(
        env, lambda action: restore_action(space, action), flat_action_space(space)
    )


def build_running_env(config: EnvConfig) -> gym.Env[Any, Any]:
    """Build an environment whose backend runs: building it is no training time.

    Args:
        config: Arguments of `make_env`.

    Raises:
        BackendError: The backend did not come up.
    """
    env = MendedEnv(build_env(config))
    env.reset()
    return env


def build_slots(config: EnvConfig, form: TrainingForm) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Build a vector environment with a slot for each agent of each copy; actions are one Box.

    Args:
        config: Arguments of `make_env`.
        form: What `training_form` decided.
    """
    environment = find_environment(config.get("env", DEFAULT_ENV))
    agents = environment.agents
    # All agents learn: which of them is the agent, and what the others do, has no meaning here.
    names = ["env", *(agents or environment.single).arguments]
    given = {name: value for name, value in config.items() if name in names}
    envs = make_vec_env(given, form.n_slots, is_shared=agents is not None, info="none")
    is_flat = not isinstance(envs.single_action_space, gym.spaces.Dict)
    return envs if is_flat else FlatVectorActions(envs)


class FlatVectorActions(gym.vector.VectorActionWrapper):
    """Takes a batch of points of one Box for actions of several parts."""

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        """Wrap a vector environment.

        Args:
            env: One whose actions are a Dict.
        """
        super().__init__(env)
        self.single_action_space = flat_action_space(env.single_action_space)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def actions(self, actions: Any) -> Any:
        """Return the parts of each slot's action by name.

        Args:
            actions: A point of the Box for each slot.
        """
        space = self.env.single_action_space
        assert isinstance(space, gym.spaces.Dict)
        each = [gym.spaces.unflatten(space, action) for action in actions]
        return {name: np.stack([one[name] for one in each]) for name in space}
