"""Environments in real time, each in a process that may die without the others."""

from __future__ import annotations

import contextlib
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import numpy as np

from dcgym.errors import DcgymError
from dcgym.policies.base import Action, Observation
from dcgym.policies.learned.child import Child
from dcgym.policies.learned.environments import build_running_env
from dcgym.policies.learned.flat import FlatEnv
from dcgym.policies.learned.shaping import Shaping
from dcgym.policies.learned.view import View
from dcgym.policies.learners import EnvConfig

__all__ = ["EnvWorker", "StepReply", "WorkerDied"]

ANSWER_DEADLINE_S = 180.0

StepReply = tuple[Observation, float, bool, dict[str, object]]
"""Observation, reward, whether an episode has ended, and what is to be said of its end. The
observation is the first one of the next episode then."""


class WorkerDied(Exception):
    """A worker has ended, or does not answer."""


class EnvWorker:
    """One environment in a process of its own, which ends with this one.

    Construction returns at once, so that many start together; `spaces` waits for the start. A
    call is a `send` and a `receive`.
    """

    def __init__(
        self, config: EnvConfig, view: View | None = None, shaping: Shaping | None = None
    ) -> None:
        """Start the process.

        Args:
            config: Arguments of `make_env`.
            view: How observations are shown; None for one at a time as it is.
            shaping: What is paid for beside the rewards; None for nothing.
        """
        self._child = Child(_serve, dict(config), view, shaping)

    @property
    def pid(self) -> int:
        """The process."""
        return self._child.pid

    def spaces(self) -> tuple[gym.Space[object], gym.Space[object]]:
        """Wait until the environment runs; returns the spaces of observations and of actions.

        Raises:
            DcgymError: It did not start.
            WorkerDied: The process died.
        """
        found: tuple[gym.Space[object], gym.Space[object]] = self.receive()
        return found

    def send(self, command: str, argument: object) -> None:
        """Ask for something; `receive` tells whether anybody was there.

        Args:
            command: "reset", with a seed or None, answered by an observation; or "step", with an
                action, answered by a `StepReply`.
            argument: What goes with it.
        """
        with contextlib.suppress(OSError):
            self._child.pipe.send((command, argument))

    def receive(self) -> Any:
        """Return the answer.

        Raises:
            DcgymError: The environment is beyond repair.
            WorkerDied: The process died, or does not answer in time.
        """
        pipe = self._child.pipe
        try:
            if not pipe.poll(ANSWER_DEADLINE_S):
                raise WorkerDied(f"no answer in {ANSWER_DEADLINE_S:g} s")
            answer = pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerDied("the process died") from error
        if isinstance(answer, DcgymError):
            raise answer
        return answer

    def hang_up(self) -> None:
        """Let the environment and its process end; `close` waits for that."""
        self._child.hang_up()

    def close(self) -> None:
        """End the environment and its process."""
        self._child.close()


def _serve(pipe: Connection, config: EnvConfig, view: View | None, shaping: Shaping | None) -> None:
    # The end of the pipe is the owner's end.
    with contextlib.suppress(EOFError, OSError):
        try:
            env = gym.wrappers.RecordEpisodeStatistics(build_running_env(config, view, shaping))
        except DcgymError as error:
            return pipe.send(error)
        with contextlib.closing(env):
            pipe.send((env.observation_space, env.action_space))
            while True:
                pipe.send(_answer(env, *pipe.recv()))


def _answer(env: FlatEnv, command: str, argument: Any) -> object:
    try:
        return env.reset(seed=argument)[0] if command == "reset" else _step(env, argument)
    except DcgymError as error:
        return error


def _step(env: FlatEnv, action: Action) -> StepReply:
    observation, reward, terminated, truncated, info = env.step(action)
    if not (terminated or truncated):
        return observation, float(reward), False, {}
    episode = {name: np.asarray(value).item() for name, value in info["episode"].items()}
    said = {
        "terminal_observation": observation,
        "TimeLimit.truncated": bool(truncated and not terminated),
        "episode": episode,
    }
    return env.reset()[0], float(reward), True, said
