"""Balancing environments side by side: one call steps all of them, without a loop in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from dcgym.config import check_in, check_int, check_keys
from dcgym.envs.balancing_core import BalancingCore, BalancingSettings
from dcgym.envs.load_balancing import BackendSpec, RewardSpec
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.actions import make_weight_map
from dcgym.tasks.balancing.presets import ScenarioSpec

__all__ = ["CentralLoadBalancingVectorEnv", "LoadBalancingVectorEnv"]

FloatArray = npt.NDArray[np.float64]


class LoadBalancingVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """Many `dcgym/LoadBalancing-v0`, with the same arguments; `gym.make_vec` makes it.

    Slot i gives exactly what a single environment gives with seed ``seed + i``. A slot whose
    episode ended begins a new one in the next step, whose action is ignored
    (`AutoresetMode.NEXT_STEP`).

    With ``is_shared`` the slots are balancers instead of pools: slots 0 to M - 1 are the balancers
    of the first pool, and so on. One network then learns from all balancers, and is carried out by
    each on its own; the number of slots is a multiple of M, and pool i has seed ``seed + i``.
    ``has_infos=False`` leaves the infos empty, for learners that would only store them.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    # Until it is set up there is nothing to close, even after a refused argument.
    closed = True

    def __init__(
        self,
        num_envs: int = 1,
        scenario: ScenarioSpec = "yao-sim-8",
        backend: BackendSpec = "simulation",
        interval: str | int | float = "250ms",
        reward: RewardSpec = "vbf_log_vbf",
        action: str = "continuous",
        rule: str = "weighted",
        others: str = "sed",
        balancer: int = 0,
        record_limit: int = 0,
        is_shared: bool = False,
        has_infos: bool = True,
        max_episode_steps: int | None = None,
    ) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        check_int("num_envs", num_envs, 1)
        settings = BalancingSettings(
            scenario, backend, interval, reward, action, rule, record_limit
        )
        per_pool = settings.pool.balancers if is_shared else 1
        if num_envs % per_pool:
            raise ConfigError("num_envs", num_envs, f"a multiple of the {per_pool} balancers")
        controlled = None if is_shared else (balancer,)
        core = BalancingCore(settings, num_envs // per_pool, controlled, others)
        self._set_up(core, num_envs, core.observation.space, core.n_servers, max_episode_steps)
        self._has_infos = check_in("has_infos", has_infos, (True, False))

    def _set_up(
        self,
        core: BalancingCore,
        num_envs: int,
        observation_space: gym.spaces.Box,
        n_weights: int,
        max_episode_steps: int | None,
    ) -> None:
        self.core = core
        self.scenario = core.scenario
        self.num_envs = num_envs
        self.action_map = make_weight_map(core.settings.action, n_weights)
        self.single_action_space = self.action_map.space
        self.single_observation_space = observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(observation_space, num_envs)
        limit = -1 if max_episode_steps is None else check_int("max_steps", max_episode_steps, 1)
        self._max_steps = limit
        self._steps = np.zeros(core.n_pools, np.int64)
        self._is_over = np.zeros(core.n_pools, np.bool_)
        self._generators: list[np.random.Generator] = []
        self._has_infos = True
        self.closed = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin an episode in every slot.

        Args:
            seed: The seed of the first pool, the others following on it; or one for each pool.
            options: None, or empty: there are none yet.
        """
        check_keys(options or {}, (), "options")
        self._seed(seed)
        self._begin(np.ones(self.core.n_pools, np.bool_))
        self.core.advance(None)
        return self._observations(), self._infos()

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[
        npt.NDArray[np.float32],
        FloatArray,
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Step every slot; those whose episode ended before begin anew instead."""
        begins = self._is_over
        if begins.any():
            self._begin(begins)
        core = self.core
        core.advance(np.reshape(actions, (core.n_pools, len(core.controlled), core.n_servers)))
        self._steps = np.where(begins, 0, self._steps + 1)
        self._is_over = self._steps == self._max_steps
        rewards = self._per_slot(np.where(begins[:, None], 0.0, core.rewards()))
        truncated = np.repeat(self._is_over, self.num_envs // core.n_pools)
        return (
            self._observations(),
            rewards,
            np.zeros(self.num_envs, np.bool_),
            truncated,
            self._infos(),
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Forget the twin."""
        self.core.close()

    def _seed(self, seed: int | Sequence[int | None] | None) -> None:
        n_pools = self.core.n_pools
        if seed is None and self._generators:
            return
        seeds: Sequence[int | None]
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + i for i in range(n_pools)]
        else:
            seeds = seed
        if len(seeds) != n_pools:
            raise ConfigError("seed", seed, f"one number, or one for each of the {n_pools} pools")
        self._generators = [seeding.np_random(one)[0] for one in seeds]

    def _begin(self, mask: npt.NDArray[np.bool_]) -> None:
        # As a single environment draws them; only pools that begin draw.
        seeds = np.zeros(self.core.n_pools, np.uint64)
        for pool in np.flatnonzero(mask):
            seeds[pool] = self._generators[pool].integers(2**63)
        self.core.begin(seeds, mask)
        self._steps = np.where(mask, 0, self._steps)
        self._is_over = self._is_over & ~mask

    def _observations(self) -> npt.NDArray[np.float32]:
        return self.core.observations.reshape(self.num_envs, -1)

    def _per_slot(self, values: FloatArray) -> FloatArray:
        """Turn values of pools and agents, shape (E, A), into values of slots."""
        return values.reshape(-1)

    def _infos(self) -> dict[str, Any]:
        if not self._has_infos:
            return {}
        present = np.ones(self.num_envs, np.bool_)
        repeats = self.num_envs // self.core.n_pools
        groups = {
            "reward_terms": {name: self._per_slot(v) for name, v in self.core.terms.items()},
            "metrics": {name: np.repeat(v, repeats) for name, v in self.core.metrics().items()},
        }
        infos: dict[str, Any] = {}
        for name, values in groups.items():
            # Gymnasium's convention: an underscored key says which slots have the value.
            infos[name] = {**values, **{f"_{key}": present for key in values}}
            infos[f"_{name}"] = present
        return infos


class CentralLoadBalancingVectorEnv(LoadBalancingVectorEnv):
    """Many `dcgym/CentralLoadBalancing-v0`, with the same arguments; `gym.make_vec` makes it."""

    def __init__(
        self,
        num_envs: int = 1,
        scenario: ScenarioSpec = "yao-sim-8",
        backend: BackendSpec = "simulation",
        interval: str | int | float = "250ms",
        reward: RewardSpec = "vbf_log_vbf",
        action: str = "continuous",
        rule: str = "weighted",
        record_limit: int = 0,
        max_episode_steps: int | None = None,
    ) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        check_int("num_envs", num_envs, 1)
        settings = BalancingSettings(
            scenario, backend, interval, reward, action, rule, record_limit
        )
        core = BalancingCore(settings, num_envs)
        one, n_agents = core.observation.space, len(core.controlled)
        space = gym.spaces.Box(
            np.tile(one.low, n_agents), np.tile(one.high, n_agents), dtype=np.float32
        )
        self._set_up(core, num_envs, space, n_agents * core.n_servers, max_episode_steps)

    def _per_slot(self, values: FloatArray) -> FloatArray:
        mean: FloatArray = values.mean(axis=1)
        return mean
