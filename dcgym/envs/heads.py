"""Environments whose agents choose a level for each row, as environments with an agent a row.

Algorithms with one choice an agent, such as QMIX, cannot learn several at a time. Here each
balancer has a head for each of its servers, as in the published agents: a head reads the server's
row beside the mean over all rows, and chooses the server's level. All heads share one network. What
they learn acts as one policy of the balancer.
"""

from __future__ import annotations

from typing import SupportsInt, TypeGuard

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from dcgym.envs.drawn import largest_rows
from dcgym.envs.parallel import Infos, Observations, TaskParallelEnv
from dcgym.errors import ConfigError
from dcgym.tasks.common.rows import RowLayout, row_inputs, rows_of

__all__ = ["HeadsEnv"]


class HeadsEnv(ParallelEnv):
    """An environment with an agent for each row of each agent of another one.

    Attributes:
        env: The other environment.
        rows: Layout of its observations.
        state_space: Space of `state`, which is the other one's.
    """

    def __init__(self, env: TaskParallelEnv) -> None:
        """Wrap an environment.

        Args:
            env: One whose actions have a choice for each row.

        Raises:
            ConfigError: They have none, or rows choose among different numbers of levels.
        """
        first = env.possible_agents[0]
        seen, chosen = env.observation_space(first), env.action_space(first)
        rows = largest_rows(env.system)
        if rows is None or not _is_level_a_row(chosen, rows):
            allowed = "as many levels for each row of an observation, where agents choose once"
            raise ConfigError("action", str(chosen), allowed)
        self.env, self.rows = env, rows
        self.settings, self.render_mode = env.settings, env.render_mode
        self.metadata = env.metadata
        self.state_space = env.state_space
        count = len(env.possible_agents) * rows.n_rows
        self.possible_agents = [f"head_{number}" for number in range(count)]
        self.agents: list[str] = []
        assert isinstance(seen, gym.spaces.Box)
        low, high = float(seen.low.min()), float(seen.high.max())
        shape, levels = (row_inputs(rows),), int(chosen.nvec[0])
        self.observation_spaces = {
            agent: gym.spaces.Box(low, high, shape, np.float32) for agent in self.possible_agents
        }
        self.action_spaces: dict[str, gym.Space[object]] = {
            agent: gym.spaces.Discrete(levels) for agent in self.possible_agents
        }

    def observation_space(self, agent: str) -> gym.Space[object]:
        """Return the observation space of a head.

        Args:
            agent: Name of the head.
        """
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space[object]:
        """Return the action space of a head.

        Args:
            agent: Name of the head.
        """
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observations, Infos]:
        """Begin an episode.

        Args:
            seed: Seeds this and the following episodes.
            options: Ignored, as by the other environment.
        """
        observations, _ = self.env.reset(seed, options)
        self.agents = list(self.possible_agents)
        return self._read(observations), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, SupportsInt]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Put the levels in force, and return what it led to; heads share their agent's reward.

        Args:
            actions: A level for each head.
        """
        levels = np.array([int(actions[agent]) for agent in self.possible_agents])
        each = levels.reshape(-1, self.rows.n_rows)
        chosen = dict(zip(self.env.possible_agents, each, strict=True))
        observations, rewards, ends, cuts, _ = self.env.step(chosen)
        earned = np.repeat(list(rewards.values()), self.rows.n_rows).tolist()
        heads = self.possible_agents
        self.agents = list(heads) if self.env.agents else []
        return (
            self._read(observations),
            dict(zip(heads, earned, strict=True)),
            dict.fromkeys(heads, any(ends.values())),
            dict.fromkeys(heads, any(cuts.values())),
            {agent: {} for agent in heads},
        )

    def state(self) -> npt.NDArray[np.float32]:
        """Return what a critic of all agents may see."""
        return self.env.state()

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return the other one's picture."""
        return self.env.render()

    def close(self) -> None:
        """End the backend."""
        self.env.close()

    def _read(self, observations: Observations) -> Observations:
        """Return what each head sees."""
        seen = rows_of(np.stack(list(observations.values())), self.rows)
        heads = seen.reshape(-1, seen.shape[-1])
        return dict(zip(self.possible_agents, heads, strict=True))


def _is_level_a_row(space: object, rows: RowLayout) -> TypeGuard[gym.spaces.MultiDiscrete]:
    return isinstance(space, gym.spaces.MultiDiscrete) and (
        space.nvec.tolist() == [space.nvec.flat[0]] * rows.n_rows
    )
