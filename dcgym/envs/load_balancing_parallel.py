"""One agent a balancer: the multi-agent environments, for PettingZoo and for RLlib."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from dcgym.config import check_in
from dcgym.envs.balancing_core import BalancingCore, BalancingSettings
from dcgym.envs.load_balancing import ALL_POOLS, BackendSpec, RewardSpec, pool_info
from dcgym.errors import BackendError, ConfigError, MissingDependency
from dcgym.tasks.balancing.presets import ScenarioSpec

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingDependency("pettingzoo", "marl") from error

__all__ = ["ParallelLoadBalancingEnv"]

MAX_STEPS = 240


class ParallelLoadBalancingEnv(ParallelEnv):  # type: ignore[misc]
    """One agent a balancer: each sees its own flows, and all meet in the same servers' queues.

    Agents are `balancer_0` to `balancer_{M-1}`. Spaces, rewards and infos of an agent are those of
    `dcgym/LoadBalancing-v0`, whose arguments this takes without ``others`` and ``balancer``; flows
    that start within ``warm_up`` are left out of `flow_records`. All agents act at the same time;
    no message passes between them. Episodes are truncated after ``max_steps`` for all agents
    alike, and never terminate.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "name": "LoadBalancing-v0",
        "render_modes": ["rgb_array"],
        "render_fps": 4,
        "is_parallelizable": True,
    }
    policy_family = "balancing"

    def __init__(
        self,
        scenario: ScenarioSpec = "yao-sim-8",
        backend: BackendSpec = "simulation",
        interval: str | int | float = "250ms",
        reward: RewardSpec = "vbf_log_vbf",
        action: str = "continuous",
        rule: str = "weighted",
        record_limit: int = 0,
        warm_up: str | int | float = 0,
        render_mode: str | None = None,
        max_steps: int | None = MAX_STEPS,
    ) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        settings = BalancingSettings(
            *(scenario, backend, interval, reward, action, rule, record_limit, warm_up),
            max_steps=max_steps,
        )
        self.core = BalancingCore(settings, 1)
        self.scenario = self.core.scenario
        self.action_map = self.core.weight_map
        self.configured_weights = self.core.configured_weights
        self.render_mode = check_in("render_mode", render_mode, (None, "rgb_array"))
        self.possible_agents = [f"balancer_{i}" for i in self.core.controlled]
        self.agents: list[str] = []
        # A space of its own for each agent: a space holds the state of its samples.
        self.observation_spaces: dict[str, gym.Space[Any]] = {
            agent: copy.deepcopy(self.core.observation.space) for agent in self.possible_agents
        }
        self.action_spaces: dict[str, gym.Space[Any]] = {
            agent: copy.deepcopy(self.core.weight_map.space) for agent in self.possible_agents
        }
        self._max_steps = settings.max_steps
        self._steps = 0
        self._generator: np.random.Generator | None = None

    @property
    def unwrapped(self) -> ParallelLoadBalancingEnv:
        """The environment itself."""
        return self

    def observation_space(self, agent: str) -> gym.Space[Any]:
        """Return the observation space of an agent, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space[Any]:
        """Return the action space of an agent, always the same object."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, npt.NDArray[np.float32]], dict[str, dict[str, Any]]]:
        """Begin an episode with empty servers.

        Args:
            seed: The same seed gives the same arrivals.
            options: Ignored: PettingZoo's own test passes any.
        """
        if seed is not None or self._generator is None:
            self._generator = seeding.np_random(seed)[0]
        pool_seed = np.array([self._generator.integers(2**63)], np.uint64)
        self.core.begin(pool_seed, ALL_POOLS)
        self.core.advance(None)
        self._steps = 0
        self.agents = list(self.possible_agents)
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, npt.NDArray[Any]]
    ) -> tuple[
        dict[str, npt.NDArray[np.float32]],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Set the weights of every balancer, let one interval pass, and return what it led to."""
        if not self.agents:
            raise BackendError("no episode is running: call reset() first")
        if set(actions) != set(self.agents):
            raise ConfigError("actions", sorted(actions), f"one for each of {self.agents}")
        for agent in self.agents:
            self.action_map.to_weights(actions[agent])
        self.core.advance(np.stack([actions[agent] for agent in self.agents])[None])
        self._steps += 1
        is_over = self._max_steps is not None and self._steps >= self._max_steps
        observations, infos = self._observations(), self._infos()
        rewards = {
            agent: float(sum(infos[agent]["reward_terms"].values())) for agent in self.agents
        }
        terminations = dict.fromkeys(self.agents, False)
        truncations = dict.fromkeys(self.agents, is_over)
        if is_over:
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def flow_records(self) -> npt.NDArray[Any]:
        """Return and forget finished flows, at most `record_limit` (`BalancingTwin.records`)."""
        records: npt.NDArray[Any] = self.core.twin.records(0)
        return records

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return a picture of the servers with their queues and weights, or None."""
        if self.render_mode is None or not self.core.is_running:
            return None
        from dcgym.envs.balancing_render import draw_servers

        weights = [self.core.weights(0, agent) for agent in range(len(self.core.controlled))]
        return draw_servers(*self.core.queues(0), np.stack(weights))

    def close(self) -> None:
        """End the twin or the emulator; a second call does nothing."""
        self.core.close()
        self.agents = []

    def _observations(self) -> dict[str, npt.NDArray[np.float32]]:
        rows = self.core.observations[0]
        return {agent: rows[i].copy() for i, agent in enumerate(self.agents)}

    def _infos(self) -> dict[str, dict[str, Any]]:
        return {agent: pool_info(self.core, (i,)) for i, agent in enumerate(self.agents)}
