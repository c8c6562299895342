"""Every environment with one agent, as Gymnasium wants it."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec

from dcgym.config import check_int
from dcgym.envs.face import Face, fitting_spec, frames_per_second
from dcgym.envs.infos import shaped
from dcgym.envs.limits import limit_around, limited
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.envs.session import Session
from dcgym.envs.system import masks_of
from dcgym.envs.values import Info, Mask, Observation
from dcgym.tasks.common.settings import RENDER_MODES

__all__ = ["TaskEnv"]


class TaskEnv(Face, gym.Env[Observation, object]):
    """One copy of a task under one agent; `gym.make` makes it.

    The page of each id (`docs/envs`) says what it decides, sees and is rewarded for.

    Args:
        env: Id of the environment.
        **arguments: The fields of its settings.

    Attributes:
        settings: The arguments, checked.
        session: The copy and its clock.

    Raises:
        ConfigError: Unknown id, or an argument that is not allowed.
    """

    # Declared as Gymnasium declares it, which RUF012 cannot know.
    metadata: dict[str, object] = {"render_modes": list(RENDER_MODES), "render_fps": 20}  # noqa: RUF012

    def __init__(self, /, env: str, **arguments: object) -> None:
        form = ENVIRONMENTS.find(env).single
        self.settings = form.read(arguments)
        self._is_limit_asked = "max_steps" in arguments
        self._max_steps = self.settings.max_steps
        self.session = Session(form.make(self.settings, 1))
        self.action_space = self.system.action_space
        self.observation_space = self.system.observation_space
        self.render_mode = self.settings.render_mode
        self.metadata = {**self.metadata, "render_fps": frames_per_second(self.system)}
        self._title = env.rpartition("/")[2]
        self._spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """The registered specification, with the episodes' limit and the backend's determinism."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = fitting_spec(spec, self.system, self.settings.max_steps)

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Observation, Info]:
        """Begin an episode in place: what the backend built stays, everything in it is cleared.

        Args:
            seed: Seeds this and the following episodes.
            options: Options of the task.

        Returns:
            A measured observation, and its info.

        Raises:
            ConfigError: Unknown option.
            BackendError: The backend did not come up.
        """
        super().reset(seed=None if seed is None else check_int("seed", seed, 0))
        own, around = self.settings.max_steps, limit_around(self)
        self._max_steps = limited(own, self._is_limit_asked, around)
        self.system.bound(self._max_steps)
        self.session.begin([self.np_random], options)
        self.session.advance()
        return self.session.observations[0, 0], shaped(self.session.info(0, 0), self.settings.info)

    def step(self, action: object) -> tuple[Observation, float, bool, bool, Info]:
        """Put an action in force, let one interval pass, and return what it led to.

        Args:
            action: A point of the action space.

        Raises:
            ConfigError: The action is not allowed.
            BackendError: No episode is running, or the backend failed.
        """
        session = self.session
        # As rows of an array, which NumPy reads in a third of the time of lists.
        session.advance(action[None, None] if isinstance(action, np.ndarray) else [[action]])
        info = {} if self.settings.info == "none" else session.info(0, 0)
        reward = float(session.rewards()[0, 0])
        limit = self._max_steps
        is_truncated = limit is not None and session.steps(0) >= limit
        is_terminated = bool(session.finished()[0])
        if is_terminated or is_truncated:
            session.finish(np.ones(1, np.bool_))
        return (
            session.observations[0, 0],
            reward,
            is_terminated,
            is_truncated,
            shaped(info, self.settings.info),
        )

    @property
    def action_masks(self) -> Callable[[], Mask]:
        """What returns which actions are feasible now, (n,); only where some may not be.

        MaskablePPO of sb3-contrib asks for it by this name.
        """
        masks = masks_of(self.system)
        return lambda: masks()[0, 0]

    def render(self) -> npt.NDArray[np.uint8] | None:  # type: ignore[override]
        """Return a picture of the copy, or None where the render mode asks for none."""
        return None if self.render_mode is None else self.session.render(0, self._title)

    def close(self) -> None:
        """End the backend; a second call does nothing, and `reset` starts a new one."""
        self.session.close()
