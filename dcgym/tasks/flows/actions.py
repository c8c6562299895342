"""Actions on a flow: one number from -1 to 1, and the command that it means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.monitors import CommandFlag
from dcgym.registry import Registry
from dcgym.tasks.flows.interval import FlowInterval
from dcgym.tasks.network.protocol import ONE_Q16, FlowCommands

__all__ = ["FLOW_ACTIONS", "FlowAction"]

FloatArray = npt.NDArray[np.float64]
States = npt.NDArray[np.void]

AURORA_SCALE = 0.025
LEAST_RATE_SHARE, MOST_RATE_SHARE = 0.01, 2.0
LARGEST_WINDOW_BITS = 10.0


class FlowAction(Protocol):
    """What an action means to a flow."""

    @property
    def space(self) -> gym.spaces.Box:
        """The space of one flow's action."""

    def commands(self, actions: FloatArray, states: States, interval: FlowInterval) -> FlowCommands:
        """Return what the actions ask for.

        Args:
            actions: Of each flow in each copy, (E, F).
            states: The flows as they were seen last, (E, F).
            interval: What they did before.
        """


class _Action:
    """A number from -1 to 1; 0 leaves a flow as it is, where that can be said."""

    flag = CommandFlag(0)

    def __init__(self) -> None:
        self.space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def commands(self, actions: FloatArray, states: States, interval: FlowInterval) -> FlowCommands:
        """Return the commands with the one value that `value` gives."""
        value = self.value(np.clip(actions, -1.0, 1.0), states, interval)
        is_there = states["generation"] > 0
        flags = np.where(is_there, np.uint32(self.flag), np.uint32(0))
        none = np.zeros(value.shape, np.uint32)
        is_rate = self.flag == CommandFlag.RATE
        return FlowCommands(
            states["generation"].astype(np.uint32),
            flags,
            _words(value * ONE_Q16) if self.flag == CommandFlag.MULTIPLIER else none,
            _words(value) if self.flag == CommandFlag.WINDOW else none,
            np.rint(value if is_rate else np.zeros_like(value)).astype(np.uint64),
        )

    def value(self, actions: FloatArray, states: States, interval: FlowInterval) -> FloatArray:
        """Return multiplier, packets, or bytes a second, as the flag says."""
        raise NotImplementedError


class OrcaAction(_Action):
    """2^a times the window, once; Reno goes on from there (Orca, SIGCOMM 2020)."""

    flag = CommandFlag.MULTIPLIER

    def value(self, actions: FloatArray, states: States, interval: FlowInterval) -> FloatArray:
        """Return the multiplier, 1/2 to 2."""
        return np.exp2(actions)


class AuroraAction(_Action):
    """The rate times 1 + 0.025 a, or over 1 - 0.025 a below 0 (Aurora, ICML 2019).

    The first action starts at what the flow reached on its own.
    """

    flag = CommandFlag.RATE

    def value(self, actions: FloatArray, states: States, interval: FlowInterval) -> FloatArray:
        """Return the rate in bytes/s."""
        is_paced = (states["flags"] & int(CommandFlag.RATE)) != 0
        reached = np.maximum(interval.rate_bps, LEAST_RATE_SHARE * interval.link_rates_bps) / 8
        rate = np.where(is_paced, states["pacing_bytes_per_s"].astype(np.float64), reached)
        step = AURORA_SCALE * actions
        rate = np.where(step >= 0, rate * (1 + step), rate / (1 - step))
        link = interval.link_rates_bps / 8
        return np.clip(rate, LEAST_RATE_SHARE * link, MOST_RATE_SHARE * link)


class WindowAction(_Action):
    """The window itself, 2 to 1024 packets on a logarithmic scale (CCP, SIGCOMM 2018)."""

    flag = CommandFlag.WINDOW

    def value(self, actions: FloatArray, states: States, interval: FlowInterval) -> FloatArray:
        """Return the window in packets."""
        return np.rint(np.exp2(1 + (actions + 1) / 2 * (LARGEST_WINDOW_BITS - 1)))


class RateAction(_Action):
    """The pacing rate itself, a hundredth to all of the sender's link."""

    flag = CommandFlag.RATE

    def value(self, actions: FloatArray, states: States, interval: FlowInterval) -> FloatArray:
        """Return the rate in bytes/s."""
        share = LEAST_RATE_SHARE + (actions + 1) / 2 * (1 - LEAST_RATE_SHARE)
        return share * interval.link_rates_bps / 8


def _words(values: FloatArray) -> npt.NDArray[np.uint32]:
    return np.rint(np.clip(values, 0, 2**32 - 1)).astype(np.uint32)


FLOW_ACTIONS: Registry[Callable[[], FlowAction]] = Registry("flow actions", "action")
"""Makers of what actions on flows mean."""

FLOW_ACTIONS.add("orca", OrcaAction)
FLOW_ACTIONS.add("aurora", AuroraAction)
FLOW_ACTIONS.add("window", WindowAction)
FLOW_ACTIONS.add("rate", RateAction)
