"""The multi-agent environment as Ray RLlib's new API stack wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcgym.envs.load_balancing_parallel import ParallelLoadBalancingEnv
from dcgym.errors import MissingDependency

try:
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise MissingDependency("ray[rllib]", "rllib") from error

__all__ = ["RllibLoadBalancingEnv"]


class RllibLoadBalancingEnv(MultiAgentEnv):
    """`ParallelLoadBalancingEnv` under RLlib's `MultiAgentEnv`.

    ``ray.tune.registry.register_env("lb", RllibLoadBalancingEnv)`` makes it known to RLlib; the
    configuration holds the environment's arguments.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._env = ParallelLoadBalancingEnv(**dict(config or {}))
        self.possible_agents = list(self._env.possible_agents)
        self.agents = list(self.possible_agents)
        self.observation_spaces = dict(self._env.observation_spaces.items())
        self.action_spaces = dict(self._env.action_spaces.items())

    @property
    def env(self) -> ParallelLoadBalancingEnv:
        """The environment below."""
        return self._env

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode for all agents."""
        found = self._env.reset(seed, options)
        self.agents = list(self._env.agents)
        return found

    def step(  # type: ignore[override]
        self, action_dict: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        """Step all agents; the key ``__all__`` says whether the episode is over."""
        observations, rewards, terminations, truncations, infos = self._env.step(action_dict)
        self.agents = list(self._env.agents)
        ends: dict[str, bool] = {**terminations, "__all__": all(terminations.values())}
        cuts: dict[str, bool] = {**truncations, "__all__": all(truncations.values())}
        return observations, rewards, ends, cuts, infos

    def render(self) -> Any:
        """Return a picture of the servers, if the render mode asks for one."""
        return self._env.render()

    def close(self) -> None:
        """Forget the twin."""
        self._env.close()
