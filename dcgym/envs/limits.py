"""How many steps an episode has, whoever says so."""

from __future__ import annotations

import sys
from types import FrameType

import gymnasium as gym
from gymnasium.core import ActType, ObsType
from gymnasium.wrappers import TimeLimit

__all__ = ["limit_around", "limited"]


def limited(own: int | None, is_asked: bool, around: int | None) -> int | None:
    """Return the number of steps of an episode: of two limits that were asked for the lower one.

    Args:
        own: ``max_steps`` of the settings; None for no limit.
        is_asked: Whether that was asked for: a default gives way to ``around``.
        around: ``max_episode_steps``, as Gymnasium calls it; None for none.
    """
    if own is None or around is None:
        return around if own is None else own
    return min(own, around) if is_asked else around


def limit_around(env: gym.Env[ObsType, ActType]) -> int | None:
    """Return the steps that Gymnasium's wrappers allow an environment whose `reset` is running.

    `gymnasium.make` tells an environment nothing of its ``max_episode_steps``; the `reset` of the
    wrapper that holds them is among the callers.

    Args:
        env: The environment.
    """
    found: list[int] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller: object = frame.f_locals.get("self") if frame.f_code.co_name == "reset" else None
        if isinstance(caller, TimeLimit) and caller.unwrapped is env:
            found.append(caller._max_episode_steps)
        frame = frame.f_back
    return min(found, default=None)
