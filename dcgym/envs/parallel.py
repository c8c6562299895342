"""Every environment with several agents, as PettingZoo wants it."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from dcgym.config import check_int
from dcgym.envs.face import Face, frames_per_second
from dcgym.envs.infos import shaped
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.envs.session import Session
from dcgym.envs.values import Info
from dcgym.errors import ConfigError, MissingDependency, needs_reset
from dcgym.tasks.common.settings import RENDER_MODES

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingDependency("pettingzoo", "marl") from error

__all__ = ["TaskParallelEnv"]

Observations = dict[str, npt.NDArray[np.float32]]
Infos = dict[str, Info]


class TaskParallelEnv(Face, ParallelEnv):
    """One copy of a task under several agents; `dcgym.parallel_env` makes it.

    All agents act at the same time; no message passes between them. Episodes end for all of them
    alike.

    Args:
        env: Id of the environment.
        **arguments: The fields of its settings; ``info`` is "flat" unless told otherwise.

    Attributes:
        state_space: Space of `state`.
        state_labels: Name of each of its positions.

    Raises:
        ConfigError: Unknown id, one without several agents, or an argument that is not allowed.
    """

    metadata: dict[str, object] = {  # noqa: RUF012
        "name": "dcgym",
        "render_modes": list(RENDER_MODES),
        "render_fps": 20,
        "is_parallelizable": True,
    }

    def __init__(self, /, env: str, **arguments: object) -> None:
        environment = ENVIRONMENTS.find(env)
        form = environment.agents
        if form is None:
            several = [name for name, one in ENVIRONMENTS.items() if one.agents is not None]
            raise ConfigError("env", env, f"one with several agents: {', '.join(several)}")
        # Libraries of several agents store infos as tensors.
        self.settings = form.read({"info": "flat", **arguments})
        self.session = Session(form.make(self.settings, 1))
        self.render_mode = self.settings.render_mode
        name = env.rpartition("/")[2]
        fps = frames_per_second(self.system)
        self.metadata = {**self.metadata, "name": name, "render_fps": fps}
        self.possible_agents = list(self.system.agents)
        self.agents: list[str] = []
        # A space of its own for each agent: a space holds the state of its samples.
        self.observation_spaces: dict[str, gym.Space[object]] = {
            agent: copy.deepcopy(self.system.observation_space) for agent in self.possible_agents
        }
        self.action_spaces: dict[str, gym.Space[object]] = {
            agent: copy.deepcopy(self.system.action_space) for agent in self.possible_agents
        }
        self._title = name
        self.state_labels = self.system.state_labels
        self.state_space = gym.spaces.Box(-1.0, 1.0, (len(self.state_labels),), np.float32)
        self._generator: np.random.Generator | None = None

    @property
    def unwrapped(self) -> TaskParallelEnv:
        """The environment itself."""
        return self

    def observation_space(self, agent: str) -> gym.Space[object]:
        """Return the observation space of an agent, always the same object.

        Args:
            agent: Name of the agent.
        """
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space[object]:
        """Return the action space of an agent, always the same object.

        Args:
            agent: Name of the agent.
        """
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observations, Infos]:
        """Begin an episode.

        Args:
            seed: Seeds this and the following episodes.
            options: Ignored: PettingZoo's own test passes any.

        Raises:
            BackendError: The backend did not come up.
        """
        if seed is not None or self._generator is None:
            own = None if seed is None else check_int("seed", seed, 0)
            self._generator = seeding.np_random(own)[0]
        self.session.begin([self._generator])
        self.session.advance()
        self.agents = list(self.possible_agents)
        return self._observations(), self._infos()

    def step(
        self, actions: Mapping[str, object]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Put every agent's action in force, let one interval pass, and return what it led to.

        Args:
            actions: One for each agent.

        Raises:
            ConfigError: An action is missing or not allowed.
            BackendError: No episode is running, or the backend failed.
        """
        if not self.agents:
            raise needs_reset()
        if not isinstance(actions, Mapping) or {*actions} != {*self.agents}:
            raise ConfigError("actions", actions, f"one for each of {self.agents}")
        self.session.advance([[actions[agent] for agent in self.agents]])
        limit = self.settings.max_steps
        is_cut = limit is not None and self.session.steps(0) >= limit
        is_done = self.session.finished()[0]
        observations, infos = self._observations(), self._infos()
        values = self.session.rewards()[0]
        rewards = {agent: float(values[i]) for i, agent in enumerate(self.agents)}
        terminations = dict.fromkeys(self.agents, bool(is_done))
        truncations = dict.fromkeys(self.agents, is_cut)
        if is_cut or is_done:
            self.session.finish(np.ones(1, np.bool_))
            self.agents = []
        return observations, rewards, terminations, truncations, infos

    def state(self) -> npt.NDArray[np.float32]:
        """Return what a critic of all agents may see, and no agent does.

        All observations, agent by agent, then ``q / (q + 8)`` of the flows q at each server.

        Raises:
            BackendError: No episode has begun.
        """
        if not self.session.is_running:
            raise needs_reset()
        return self.system.state(0).astype(np.float32)

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return a picture of the copy, or None where the render mode asks for none."""
        return None if self.render_mode is None else self.session.render(0, self._title)

    def close(self) -> None:
        """End the backend; a second call does nothing."""
        self.session.close()
        self.agents = []

    def _observations(self) -> Observations:
        rows = self.session.observations[0]
        return {agent: rows[i].copy() for i, agent in enumerate(self.agents)}

    def _infos(self) -> Infos:
        if self.settings.info == "none":
            return {agent: {} for agent in self.agents}
        return {
            agent: shaped(self.session.info(0, i), self.settings.info)
            for i, agent in enumerate(self.agents)
        }
