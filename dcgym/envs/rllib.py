"""Every environment as Ray RLlib's new API stack wants it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, SupportsFloat, TypeAlias

import gymnasium as gym
import numpy as np

from dcgym.config import check_flag
from dcgym.envs.factory import make_env, parallel_env
from dcgym.envs.parallel import Infos, Observations, TaskParallelEnv
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.envs.values import Info, Observation
from dcgym.errors import ConfigError, MissingDependency

try:
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
    from ray.tune.registry import register_env
except ImportError as error:
    raise MissingDependency("ray[rllib]", "rllib") from error

__all__ = ["MaskedObservations", "RllibParallelEnv", "register_rllib", "rllib_env"]


Masked = dict[str, Observation]
RllibEnv: TypeAlias = "RllibParallelEnv | MaskedObservations | gym.Env[Observation, object]"


class RllibParallelEnv(MultiAgentEnv):
    """An environment with several agents under RLlib's `MultiAgentEnv`.

    Args:
        config: What `dcgym.parallel_env` takes, as one mapping; ``env`` names the environment.

    Raises:
        ConfigError: Unknown environment, field or value that is not allowed.
    """

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._env: TaskParallelEnv = parallel_env(dict(config or {}))
        self.possible_agents = list(self._env.possible_agents)
        self.agents = list(self.possible_agents)
        self.observation_spaces = dict(self._env.observation_spaces.items())
        self.action_spaces = dict(self._env.action_spaces.items())

    @property
    def env(self) -> TaskParallelEnv:
        """The environment below."""
        return self._env

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode for all agents.

        Args:
            seed: Seeds this and the following episodes.
            options: Ignored.
        """
        found = self._env.reset(seed, options)
        self.agents = list(self._env.agents)
        return found

    def step(  # type: ignore[override]
        self, action_dict: dict[str, object]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Step all agents; the key ``__all__`` says whether the episode is over.

        Args:
            action_dict: One action for each agent.
        """
        observations, rewards, terminations, truncations, infos = self._env.step(action_dict)
        self.agents = list(self._env.agents)
        ends: dict[str, bool] = {**terminations, "__all__": all(terminations.values())}
        cuts: dict[str, bool] = {**truncations, "__all__": all(truncations.values())}
        return observations, rewards, ends, cuts, infos

    def render(self) -> Any:
        """Return a picture, if the render mode asks for one."""
        return self._env.render()

    def close(self) -> None:
        """End the backend."""
        self._env.close()


class MaskedObservations(gym.Wrapper[Masked, object, Observation, object]):
    """Observations with the mask of actions, as RLlib's `ActionMaskingTorchRLModule` wants them.

    Observations are a `Dict`: ``action_mask``, 1 for each action that is feasible, (n,), and
    ``observations``, what the environment shows.

    Args:
        env: An environment of one agent some of whose actions may be infeasible.

    Raises:
        ConfigError: All actions are feasible at any time.
    """

    def __init__(self, env: gym.Env[Observation, object]) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gym.spaces.Discrete) or not env.has_wrapper_attr("action_masks"):
            raise ConfigError("masks", True, "an environment whose actions may be infeasible")
        masks = gym.spaces.Box(0.0, 1.0, (int(space.n),), np.float32)
        self.observation_space = gym.spaces.Dict(
            {"action_mask": masks, "observations": env.observation_space}
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Masked, Info]:
        """Begin an episode (`gymnasium.Env.reset`)."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._masked(observation), info

    def step(self, action: object) -> tuple[Masked, SupportsFloat, bool, bool, Info]:
        """Take a step (`gymnasium.Env.step`)."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._masked(observation), reward, terminated, truncated, info

    def _masked(self, observation: Observation) -> Masked:
        unwrapped: Any = self.env.unwrapped
        return {
            "action_mask": unwrapped.action_masks().astype(np.float32),
            "observations": observation,
        }


def rllib_env(config: Mapping[str, object], env: str | None = None) -> RllibEnv:
    """Make an environment for RLlib: one agent as Gymnasium's, several as `MultiAgentEnv`.

    Args:
        config: What `dcgym.make_env` takes, as one mapping; ``agents``: "single" (the default) or
            "several"; and ``masks``: whether one agent's observations are `MaskedObservations`.
        env: Id of the environment; None where the mapping has it.

    Raises:
        ConfigError: Unknown environment, field or value that is not allowed.
    """
    arguments = dict(config) if env is None else {"env": env, **config}
    if arguments.pop("agents", "single") == "several":
        return RllibParallelEnv(arguments)
    has_masks = check_flag("masks", arguments.pop("masks", False))
    made = make_env(arguments)
    return MaskedObservations(made) if has_masks else made


def register_rllib(name: str = "dcgym") -> str:
    """Make the ids and `rllib_env` known to RLlib, and return the name that stands for the latter.

    RLlib's workers are processes of their own, which know no id of Gymnasium's that no module of
    theirs has registered. What is made known here reaches them.

    Args:
        name: Name for RLlib.
    """
    register_env(name, rllib_env)
    for env_id in ENVIRONMENTS.names():
        register_env(env_id, partial(rllib_env, env=env_id))
    return name
