"""Simulated pools as Stable-Baselines3 wants them, and an actor that treats servers alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.td3.policies import Actor, TD3Policy
from torch import nn

from dcgym.policies.learned.server_network import ServerNetwork

__all__ = ["PoolVecEnv", "ServerPolicy"]


class PoolVecEnv(VecEnv):
    """A native vector environment whose slots all end at the same step.

    Gymnasium's vector environments begin the next episode in the step after the end, those of
    Stable-Baselines3 in the same one: the step in between is taken here.
    """

    def __init__(self, envs: Any) -> None:
        """Wrap a vector environment."""
        self._envs = envs
        self._actions: npt.NDArray[np.float32] = np.empty(0, np.float32)
        self._returns = np.zeros(envs.num_envs)
        self._length = 0
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> npt.NDArray[np.float32]:
        """Begin an episode in every slot, with the seed that was set last."""
        seed = self._seeds[0]
        observations, _ = self._envs.reset(seed=seed)
        self._reset_seeds()
        self._returns[:], self._length = 0.0, 0
        found: npt.NDArray[np.float32] = observations
        return found

    def step_async(self, actions: npt.NDArray[np.float32]) -> None:
        """Keep the actions of the next step."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Step every slot; at the end of an episode return the first observation of the next."""
        observations, rewards, _, truncated, _ = self._envs.step(self._actions)
        self._returns += rewards
        self._length += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if truncated.any():
            infos = self._ends(observations)
            observations, *_ = self._envs.step(self._actions)
            self._returns[:], self._length = 0.0, 0
        return observations, rewards.astype(np.float32), truncated, infos

    def _ends(self, observations: npt.NDArray[np.float32]) -> list[dict[str, Any]]:
        """Return what the library wants to know of an episode that was cut."""
        return [
            {
                "terminal_observation": observation,
                "TimeLimit.truncated": True,
                "episode": {"r": total, "l": self._length, "t": 0.0},
            }
            for observation, total in zip(observations, self._returns.tolist(), strict=True)
        ]

    def close(self) -> None:
        """Close the environment."""
        self._envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute, the same for every slot."""
        return [getattr(self._envs, attr_name, None)] * len(self._indices(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: slots are no objects of their own."""
        raise AttributeError(f"slots share one environment: {attr_name} cannot be set")

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Refuse: slots are no objects of their own."""
        raise AttributeError(f"slots share one environment: {method_name} cannot be called")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every slot: there are no wrappers."""
        return [False] * len(self._indices(indices))

    def _indices(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))


class ServerActor(Actor):
    """DDPG's actor over servers; the first actions are equal weights."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Build the library's actor, and put the network over servers in its place."""
        super().__init__(*args, **kwargs)
        n_servers = int(np.prod(self.action_space.shape or (1,)))
        self.mu = nn.Sequential(ServerNetwork(n_servers), nn.Tanh())


class ServerPolicy(TD3Policy):
    """Actor over servers, critics as the library makes them."""

    def make_actor(self, features_extractor: Any = None) -> ServerActor:
        """Make an actor."""
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return ServerActor(**arguments).to(self.device)
