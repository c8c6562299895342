"""Many copies of any environment side by side: one call steps all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, iterate

from dcgym.config import check_in, check_int, check_keys
from dcgym.envs.face import Face, fitting_spec
from dcgym.envs.registry import ENVIRONMENTS, AgentForm, Environment
from dcgym.envs.session import Session
from dcgym.envs.system import Actions, FloatArray, Mask, System
from dcgym.errors import ConfigError
from dcgym.tasks.common.settings import TaskSettings

__all__ = ["TaskVectorEnv"]


class TaskVectorEnv(Face, gym.vector.VectorEnv[Any, Any, Any]):
    """Many copies of an environment, with the same arguments; `gym.make_vec` makes it.

    Slot i gives exactly what a single environment gives with seed ``seed + i``, as far as the
    backend is deterministic. A slot whose episode ended begins a new one in the next step, whose
    action is ignored (`AutoresetMode.NEXT_STEP`).

    Args:
        num_envs: Number of slots.
        env: Id of the environment.
        is_shared: The slots are agents instead of copies: slots 0 to A - 1 are those of the first
            copy, and so on. One network then learns from all agents, and is carried out by each
            on its own; the number of slots is a multiple of A, and copy i has seed ``seed + i``.
        has_infos: False leaves the infos empty, for learners that would only store them.
        max_episode_steps: Steps until truncation; None or -1 for the settings' own limit.
        **arguments: The fields of the environment's settings.

    Raises:
        ConfigError: Unknown id, or an argument that is not allowed.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    # Until it is set up there is nothing to close, even after a refused argument.
    closed = True

    def __init__(
        self,
        num_envs: int = 1,
        *,
        env: str,
        is_shared: bool = False,
        has_infos: bool = True,
        max_episode_steps: int | None = None,
        **arguments: Any,
    ) -> None:
        form = _form(ENVIRONMENTS.find(env), check_in("is_shared", is_shared, (True, False)))
        self._has_infos = check_in("has_infos", has_infos, (True, False))
        check_int("num_envs", num_envs, 1)
        check_keys(arguments, form.arguments, "config")
        settings = form.settings(**arguments)
        self._max_steps = _limit(max_episode_steps, settings.max_steps)
        # What a backend draws for an episode is bounded by its length.
        self.settings: TaskSettings = replace(settings, max_steps=self._max_steps)
        system, self._per_copy = _bind(form, self.settings, num_envs)
        self.session = Session(system)
        self.num_envs = num_envs
        self.single_action_space = system.action_space
        self.single_observation_space = system.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._steps = np.zeros(system.n_envs, np.int64)
        self._is_over: Mask = np.zeros(system.n_envs, np.bool_)
        self._generators: list[np.random.Generator] = []
        self._spec: EnvSpec | None = None
        self.closed = False

    @property
    def spec(self) -> EnvSpec | None:
        """The registered specification, with what the backend says about determinism."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = fitting_spec(spec, self.system)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin an episode in every slot.

        Args:
            seed: The seed of the first copy, the others following on it; or one for each copy.
            options: Options of the task. ``reset_mask``, as Gymnasium has it, says which slots
                begin; the others stay as they are.

        Raises:
            ConfigError: Unknown option, or another number of seeds.
            BackendError: The backend did not come up.
        """
        given = dict(options or {})
        mask = np.asarray(given.pop("reset_mask", np.ones(self.num_envs, np.bool_)))
        if mask.shape != (self.num_envs,):
            raise ConfigError(
                "reset_mask", mask, f"a truth value for each of {self.num_envs} slots"
            )
        # The slots of one copy begin together.
        begins: Mask = np.asarray(mask.reshape(-1, self._per_copy).any(axis=1))
        self._seed(seed)
        pairs = zip(self._generators, begins, strict=True)
        self.session.begin([one if is_new else None for one, is_new in pairs], given)
        self.session.settle()
        self._steps[begins], self._is_over[begins] = 0, False
        return self._observations(), self._infos()

    def step(
        self, actions: Any
    ) -> tuple[npt.NDArray[np.float32], FloatArray, Mask, Mask, dict[str, Any]]:
        """Step every slot; those whose episode ended before begin anew instead.

        Args:
            actions: A batch of actions.

        Raises:
            ConfigError: An action is not allowed.
            BackendError: No episode is running, or the backend failed.
        """
        begins = self._is_over
        if begins.any():
            pairs = zip(self._generators, begins, strict=True)
            self.session.begin([one if is_new else None for one, is_new in pairs])
        self.session.advance(self._by_copy(actions))
        self._steps = np.where(begins, 0, self._steps + 1)
        rewards = np.where(begins[:, None], 0.0, self.session.rewards()).reshape(-1)
        terminated = self.session.finished() & ~begins
        truncated: Mask = np.zeros_like(terminated)
        if self._max_steps is not None:
            truncated = self._steps == np.full_like(self._steps, self._max_steps)
        self._is_over = np.logical_or(terminated, truncated)
        return (
            self._observations(),
            rewards,
            np.repeat(terminated, self._per_copy),
            np.repeat(truncated, self._per_copy),
            self._infos(),
        )

    def close_extras(self, **kwargs: Any) -> None:
        """End the backend."""
        self.session.close()

    def _by_copy(self, actions: Any) -> Actions:
        if isinstance(self.single_action_space, gym.spaces.Dict):
            each = list(iterate(self.action_space, actions))
            n_agents = self._per_copy
            return [each[i : i + n_agents] for i in range(0, len(each), n_agents)]
        batch = np.asarray(actions)
        # Copies whose agents are one slot have one agent.
        return batch.reshape(self.system.n_envs, self._per_copy, *batch.shape[1:])

    def _seed(self, seed: int | Sequence[int | None] | None) -> None:
        n_copies = self.system.n_envs
        if seed is None and self._generators:
            return
        seeds: Sequence[int | None]
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + i for i in range(n_copies)]
        else:
            seeds = seed
        if len(seeds) != n_copies:
            raise ConfigError("seed", seed, f"one number, or one for each of the {n_copies} copies")
        self._generators = [seeding.np_random(one)[0] for one in seeds]

    def _observations(self) -> npt.NDArray[np.float32]:
        return self.session.observations.reshape(self.num_envs, -1)

    def _infos(self) -> dict[str, Any]:
        if not self._has_infos:
            return {}
        present = np.ones(self.num_envs, np.bool_)
        groups: dict[str, Mapping[str, FloatArray]] = {
            "reward_terms": {name: v.reshape(-1) for name, v in self.system.terms.items()},
            "metrics": {
                name: np.repeat(v, self._per_copy) for name, v in self.system.metrics().items()
            },
        }
        infos: dict[str, Any] = {}
        for name, values in groups.items():
            # Gymnasium's convention: an underscored key says which slots have the value.
            infos[name] = {**values, **{f"_{key}": present for key in values}}
            infos[f"_{name}"] = present
        return infos


def _form(environment: Environment, is_shared: bool) -> AgentForm:
    if not is_shared:
        return environment.single
    if environment.agents is None:
        raise ConfigError("is_shared", True, f"false: {environment.id} has one agent")
    return environment.agents


def _bind(form: AgentForm, settings: TaskSettings, num_envs: int) -> tuple[System, int]:
    """Return the task on its backend, and how many slots a copy fills."""
    one = form.make(settings, 1)
    per_copy = len(one.agents)
    if num_envs % per_copy:
        one.close()
        raise ConfigError("num_envs", num_envs, f"a multiple of the {per_copy} agents")
    if num_envs == per_copy:
        return one, per_copy
    one.close()
    return form.make(settings, num_envs // per_copy), per_copy


def _limit(max_episode_steps: int | None, max_steps: int | None) -> int | None:
    """Return the number of steps of an episode, None for no limit; the settings' own wins."""
    # -1 is Gymnasium's word for no limit.
    given = None if max_episode_steps == -1 else max_episode_steps
    return given if max_steps is None else max_steps
