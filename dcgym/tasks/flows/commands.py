"""What an agent may tell flows of dcgym_agent, and what backends that can do so have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["ONE_Q16", "FlowCommands", "FlowControls", "no_commands"]

ONE_Q16 = 1 << 16
"""A multiplier of 1: fixed point with 16 fractional bits."""

TimeArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class FlowCommands:
    """A command for each of F flows in E copies (`struct dcgym_agent_command`), (E, F) each.

    Attributes:
        generations: Of the flow that it is for, as its state says; 0 for no command.
        flags: `dcgym.monitors.CommandFlag`: which of the following count.
        multipliers_q16: Of the window, once; in units of 1 / `ONE_Q16`.
        cwnds_packets: Window.
        rates_bytes_per_s: Pacing rate.
    """

    generations: WordArray
    flags: WordArray
    multipliers_q16: WordArray
    cwnds_packets: WordArray
    rates_bytes_per_s: npt.NDArray[np.uint64]

    def of(self, env: int) -> FlowCommands:
        """Return those of one copy, (1, F) each.

        Args:
            env: Number of the copy.
        """
        one = slice(env, env + 1)
        return FlowCommands(
            self.generations[one],
            self.flags[one],
            self.multipliers_q16[one],
            self.cwnds_packets[one],
            self.rates_bytes_per_s[one],
        )


class FlowControls(Protocol):
    """What a network of the capability ``flow_control`` has; E copies, F flows."""

    def flow_states(self, count: int) -> npt.NDArray[np.void]:
        """Return the first flows of each plan, (E, F) of `dcgym.monitors.AGENT_FLOW`.

        A row of generation 0 is a flow that has not begun or does not run dcgym_agent.

        Args:
            count: F.
        """

    def command_flows(self, commands: FlowCommands, lease_ns: int) -> TimeArray:
        """Give commands, in force with each flow's next ACK; returns when they could be read, (E,).

        Args:
            commands: What the flows are to do.
            lease_ns: How long all commands hold from now on, those given before too.
        """


def no_commands(generations: npt.NDArray[np.unsignedinteger]) -> FlowCommands:
    """Return commands that ask for Reno.

    Args:
        generations: Of the flows, (E, F).
    """
    shape = generations.shape
    words = np.zeros(shape, np.uint32)
    return FlowCommands(
        generations.astype(np.uint32), words, words, words, np.zeros(shape, np.uint64)
    )
