"""Many copies of any environment side by side: one call steps all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, iterate

from dcgym.config import check_in, check_int, check_keys
from dcgym.envs.bindings.base import MOST_COPIES
from dcgym.envs.face import fitting_spec, frames_per_second, seeds_of_copies
from dcgym.envs.infos import flat_columns, masked
from dcgym.envs.limits import limited
from dcgym.envs.registry import ENVIRONMENTS, AgentForm, Environment
from dcgym.envs.session import Session
from dcgym.envs.slots import SlottedVectorEnv
from dcgym.envs.values import Actions, FloatArray, Mask, Observation, Stacked
from dcgym.errors import BackendError, ConfigError
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.settings import RENDER_MODES, TaskSettings

__all__ = ["TaskVectorEnv"]


class TaskVectorEnv(SlottedVectorEnv):
    """Many copies of an environment, with the same arguments; `gym.make_vec` makes it.

    Slot i gives exactly what a single environment gives with seed ``seed + i``, as far as the
    backend is deterministic; observations, rewards and infos are those of Gymnasium's
    `SyncVectorEnv` over single environments. So are `call`, `get_attr`, `set_attr` and `render`,
    which reach the slots one by one.

    Args:
        num_envs: Number of slots.
        env: Id of the environment.
        is_shared: The slots are agents instead of copies: slots 0 to A - 1 are those of the first
            copy, and so on. One network then learns from all agents, and is carried out by each
            on its own; the number of slots is a multiple of A, and copy i has seed ``seed + i``.
        autoreset_mode: When a slot whose episode ended begins the next one, as an `AutoresetMode`
            or its text. "NextStep": in the next step, whose action is ignored. "SameStep": at once;
            the infos hold ``final_obs`` and ``final_info``. "Disabled": in `reset` alone, whose
            option ``reset_mask`` names the slots.
        max_episode_steps: Steps until truncation; None, or -1 as in Gymnasium, for ``max_steps``
            alone. The lower one holds where both are given.
        **arguments: The fields of the environment's settings. ``info`` is the form of the infos:
            "full", nested; "flat", one level of numbers; or "none", the fastest, for learners that
            would only store them.

    Raises:
        ConfigError: Unknown id, or an argument that is not allowed.
    """

    metadata: dict[str, object] = {  # noqa: RUF012
        "autoreset_mode": AutoresetMode.NEXT_STEP,
        "render_modes": list(RENDER_MODES),
    }
    # Until it is set up there is nothing to close, even after a refused argument.
    closed = True

    def __init__(
        self,
        /,
        num_envs: int = 1,
        *,
        env: str,
        is_shared: bool = False,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        **arguments: object,
    ) -> None:
        form = _form(ENVIRONMENTS.find(env), check_in("is_shared", is_shared, (True, False)))
        self._mode = _autoreset_mode(autoreset_mode)
        num_envs = check_int("num_envs", num_envs, 1)
        settings = form.read(arguments)
        # -1 is Gymnasium's word for no limit.
        around = None if max_episode_steps == -1 else max_episode_steps
        if around is not None:
            around = check_int("max_episode_steps", around, 1)
        self._max_steps = limited(settings.max_steps, "max_steps" in arguments, around)
        # What a backend draws for an episode is bounded by its length.
        self.settings: TaskSettings = replace(settings, max_steps=self._max_steps)
        n_agents = len(form.agent_names(self.settings)) if is_shared else 1
        self.slots_per_copy = n_agents
        if num_envs % n_agents:
            raise ConfigError("num_envs", num_envs, f"a multiple of the {n_agents} agents")
        num_envs = check_int("num_envs", num_envs, n_agents, n_agents * MOST_COPIES)
        system = form.make(self.settings, num_envs // n_agents)
        self.session = Session(system)
        self.render_mode = self.settings.render_mode
        fps = frames_per_second(system)
        self.metadata = {**self.metadata, "autoreset_mode": self._mode, "render_fps": fps}
        self.title = env.rpartition("/")[2]
        self.num_envs = num_envs
        self.single_action_space = system.action_space
        self.single_observation_space = system.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._steps = np.zeros(system.n_envs, np.int64)
        self._never: Mask = np.zeros(system.n_envs, np.bool_)
        self._is_over = self._never.copy()
        self._spec: EnvSpec | None = None
        self.closed = False

    @property
    def spec(self) -> EnvSpec | None:
        """The registered specification, with the episodes' limit and the backend's determinism."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = fitting_spec(spec, self.system, self._max_steps)

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """When a slot whose episode ended begins the next one."""
        return self._mode

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, object] | None = None,
    ) -> tuple[Observation, Stacked]:
        """Begin an episode in every slot.

        Args:
            seed: The seed of the first copy, the others following on it; or one for each copy.
            options: Options of the task. ``reset_mask``, as Gymnasium has it, says which slots
                begin; the others stay as they are, and have no infos. Agents of one copy begin
                together.

        Raises:
            ConfigError: Unknown option, or another number of seeds or slots.
            BackendError: The backend did not come up.
        """
        allowed = ("reset_mask", *self.system.options)
        given = dict(check_keys({} if options is None else options, allowed, "options"))
        begins = self._begins(given.pop("reset_mask", None))
        self._seed(seed, begins)
        self._begin(begins, given)
        return self._observations(), self._infos(begins)

    def step(
        self, actions: object
    ) -> tuple[Observation, FloatArray, Mask, Mask, dict[str, object]]:
        """Step every slot; `autoreset_mode` says when those begin anew whose episode ended.

        Args:
            actions: A batch of actions.

        Raises:
            ConfigError: An action is not allowed.
            BackendError: No episode is running, or the backend failed.
        """
        begins = self._is_over
        # Counted, which NumPy does in a quarter of the time of any().
        has_new = np.count_nonzero(begins) > 0
        if has_new:
            if self._mode is AutoresetMode.DISABLED:
                slots = np.flatnonzero(np.repeat(begins, self.slots_per_copy)).tolist()
                raise BackendError(f"slots {slots} have ended", "reset them with reset_mask first")
            self._start(begins)
        self.session.advance(self._by_copy(actions))
        self._steps = self._steps + 1
        rewards, terminated = self.session.rewards(), self.session.finished()
        if has_new:
            self._steps[begins] = 0
            rewards = np.where(begins[:, None], 0.0, rewards)
        truncated = self._never
        if self._max_steps is not None:
            truncated = self._steps == self._max_steps
        self._is_over = np.logical_or(terminated, truncated)
        has_ended, finals = np.count_nonzero(self._is_over) > 0, {}
        if has_ended and self._mode is AutoresetMode.SAME_STEP:
            finals = self._renew(self._is_over)
        infos = self._infos() | finals
        if has_ended and self._mode is not AutoresetMode.SAME_STEP:
            self.session.finish(self._is_over)
        return (
            self._observations(),
            rewards.reshape(-1),
            np.repeat(terminated, self.slots_per_copy),
            np.repeat(truncated, self.slots_per_copy),
            infos,
        )

    def close_extras(self, **kwargs: object) -> None:
        """End the backend."""
        self.session.close()

    def _begins(self, mask: object) -> Mask:
        """Return which copies an option ``reset_mask`` names, (E,); all if None."""
        n_envs = self.system.n_envs
        if mask is None:
            return np.ones(n_envs, np.bool_)
        slots = np.asarray(mask)
        if slots.shape != (self.num_envs,) or slots.dtype != np.bool_ or not slots.any():
            allowed = f"true or false for each of {self.num_envs} slots, once true"
            raise ConfigError("reset_mask", slots.tolist(), allowed)
        if not self.session.is_running and not slots.all():
            raise ConfigError("reset_mask", slots.tolist(), "all slots, as none runs")
        return np.asarray(slots.reshape(n_envs, -1).any(axis=1))

    def _begin(self, begins: Mask, options: Mapping[str, object] | None = None) -> None:
        """Begin an episode in some copies, up to its first observation."""
        self._start(begins, options)
        self.session.settle()
        self._steps[begins], self._is_over[begins] = 0, False

    def _start(self, begins: Mask, options: Mapping[str, object] | None = None) -> None:
        """Begin an episode in some copies; the next `advance` or `settle` observes it."""
        pairs = zip(self.chance, begins, strict=True)
        self.session.begin([one[0] if is_new else None for one, is_new in pairs], options)

    def _renew(self, over: Mask) -> dict[str, object]:
        """Begin the next episode of some copies; return what the infos keep of the last one."""
        ended = np.repeat(over, self.slots_per_copy)
        last, observations = np.full(self.num_envs, None, object), self._observations()
        for slot in np.flatnonzero(ended):
            last[slot] = observations[slot]
        finals: dict[str, object] = {"final_obs": last, "_final_obs": ended}
        if self.settings.info != "none":
            finals |= {"final_info": self._infos(over), "_final_info": ended.copy()}
        self._begin(over.copy())
        return finals

    def _by_copy(self, actions: object) -> Actions:
        if isinstance(self.single_action_space, gym.spaces.Dict):
            try:
                each = list(iterate(self.action_space, actions))
            except Exception as error:  # Gymnasium's own, of any kind.
                allowed = f"a batch of {self.num_envs} actions of {self.single_action_space}"
                raise ConfigError("action", actions, allowed) from error
            n_agents = self.slots_per_copy
            return [each[i : i + n_agents] for i in range(0, len(each), n_agents)]
        batch = action_array(actions, (self.num_envs,))
        # Copies whose agents are one slot have one agent.
        return batch.reshape(self.system.n_envs, self.slots_per_copy, *batch.shape[1:])

    def _seed(self, seed: int | Sequence[int | None] | None, begins: Mask) -> None:
        """Give the copies that begin generators of these seeds; None keeps what they have."""
        seeds = seeds_of_copies(seed, self.system.n_envs)
        for copy, (one, is_new) in enumerate(zip(seeds, begins, strict=True)):
            if is_new and one is not None:
                self.chance[copy] = seeding.np_random(one)

    def _observations(self) -> Observation:
        return self.session.observations.reshape(self.num_envs, -1)

    def _infos(self, copies: Mask | None = None) -> Stacked:
        """Return the infos of some copies, (E,), or of all, for each slot."""
        form = self.settings.info
        if form == "none":
            return {}
        present = np.ones(self.num_envs, np.bool_)
        if copies is not None:
            present = np.repeat(copies, self.slots_per_copy)
        infos = _by_slot(self.session.infos())
        return masked(flat_columns(infos) if form == "flat" else infos, present)


def _autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        allowed = [one.value for one in AutoresetMode]
        raise ConfigError("autoreset_mode", mode, allowed) from None


def _by_slot(infos: dict[str, Any]) -> Stacked:
    """Return infos of copies and agents, (E, A, ...), as those of slots, (E * A, ...)."""
    return {
        name: _by_slot(value) if isinstance(value, dict) else value.reshape(-1, *value.shape[2:])
        for name, value in infos.items()
    }


def _form(environment: Environment, is_shared: bool) -> AgentForm:
    if not is_shared:
        return environment.single
    if environment.agents is None:
        raise ConfigError("is_shared", True, f"false: {environment.id} has one agent")
    return environment.agents
