"""The protocol of networks: what may be decided about copies of one, and read of them.

Shapes: E copies, P switch ports, H hosts, F steered flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.monitors import Snapshot, StateWords

__all__ = ["NOTHING", "ONE_Q16", "FlowCommands", "NetworkCommands", "NetworkState"]

ONE_Q16 = 1 << 16
"""A multiplier of 1: fixed point with 16 fractional bits."""

Mask: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint32]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class FlowCommands:
    """A command for each of F flows in E copies (`struct dcgym_agent_command`), (E, F) each.

    Attributes:
        generations: Of the flow that it is for, as its state says; 0 for no command.
        flags: `dcgym.monitors.CommandFlag`: which of the following count.
        multipliers_q16: Of the window, once; in units of 1 / `ONE_Q16`.
        cwnds_packets: Window.
        rates_bytes_per_s: Pacing rate.
    """

    generations: Words
    flags: Words
    multipliers_q16: Words
    cwnds_packets: Words
    rates_bytes_per_s: npt.NDArray[np.uint64]

    def of(self, env: int) -> FlowCommands:
        """Return those of one copy, (1, F) each.

        Args:
            env: Number of the copy.
        """
        own = slice(env, env + 1)
        return FlowCommands(
            self.generations[own],
            self.flags[own],
            self.multipliers_q16[own],
            self.cwnds_packets[own],
            self.rates_bytes_per_s[own],
        )


# One is made each step: a frozen one takes three times as long.
@dataclass(slots=True, eq=False)
class NetworkCommands:
    """What may be decided about a network; what is None stays as it is.

    Attributes:
        rates_bps: Limit of each host, (E, H).
        path_weights: 0 or more, one for each port of each group with a choice, in the order of
            `dcgym.topologies.next_hop_groups`, (E, W). Where a group's are all 0 they count as
            equal.
        flow_commands: To the steered flows, in force with each one's next ACK.
        lease_ns: How long the commands to flows hold from now on, those given before too; said with
            `flow_commands`.
        cuts_flows: Cut every flow that still runs; `ENDED_FLOWS` has these too, then.
    """

    rates_bps: npt.NDArray[np.uint64] | None = None
    path_weights: npt.NDArray[np.float64] | None = None
    flow_commands: FlowCommands | None = None
    lease_ns: int = 0
    cuts_flows: bool = False

    def __or__(self, other: NetworkCommands) -> NetworkCommands:
        """Return these commands and others, which decide what these leave as it is."""
        flows = other if self.flow_commands is None else self
        return NetworkCommands(
            other.rates_bps if self.rates_bps is None else self.rates_bps,
            other.path_weights if self.path_weights is None else self.path_weights,
            flows.flow_commands,
            flows.lease_ns,
            self.cuts_flows or other.cuts_flows,
        )

    def of(self, env: int) -> NetworkCommands:
        """Return those to one copy, with arrays of one row.

        Args:
            env: Number of the copy.
        """
        own, flows = slice(env, env + 1), self.flow_commands
        return NetworkCommands(
            None if self.rates_bps is None else self.rates_bps[own],
            None if self.path_weights is None else self.path_weights[own],
            None if flows is None else flows.of(env),
            self.lease_ns,
            self.cuts_flows,
        )


NOTHING = NetworkCommands()
"""Leaves everything as it is; to be told the time."""


@dataclass(slots=True, eq=False)
class NetworkState:
    """What is read of E copies of a network, each at one moment of its own.

    Attributes:
        time_ns: When the collection of each began, on the clock of its backend, (E,).
        words: A row of `dcgym.monitors.StateWords` a copy, (E, W): counters since the last reset,
            queues and hosts now.
        finished: Where every flow of the plan has ended, (E,).
        flow_matrix: Bytes by switch port and source host, (E, P, H); None where nobody counts them.
        probe_rtt_ns: `dcgym.monitors.Snapshot.probe_rtt_ns` of each, (E, pairs); None where nothing
            is probed.
        flows: The steered flows, (E, F) of `dcgym.monitors.AGENT_FLOW`; one of generation 0 has not
            begun or does not run dcgym_agent. None where no flow is steered.
    """

    time_ns: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]
    finished: Mask
    flow_matrix: npt.NDArray[np.float64] | None = None
    probe_rtt_ns: npt.NDArray[np.float64] | None = None
    flows: npt.NDArray[np.void] | None = None

    @classmethod
    def of(
        cls,
        layout: StateWords,
        snapshot: Snapshot,
        finished: bool,
        flows: npt.NDArray[np.void] | None = None,
    ) -> NetworkState:
        """Return the state of one copy.

        Args:
            layout: Of its row.
            snapshot: What its counters say.
            finished: Whether every flow of its plan has ended.
            flows: Its steered flows, (F,).
        """
        matrix, rtts_ns = snapshot.flow_matrix, snapshot.probe_rtt_ns
        return cls(
            np.array([snapshot.time_ns], np.int64),
            layout.row_of(snapshot)[None],
            np.array([finished], np.bool_),
            None if matrix is None else matrix[None],
            None if rtts_ns is None else rtts_ns[None],
            None if flows is None else flows[None],
        )

    @classmethod
    def joined(cls, states: Sequence[NetworkState | None]) -> NetworkState:
        """Return the states of single copies as one.

        Args:
            states: Of one copy each, at least one of them; the row of None says nothing.
        """
        known = next(one for one in states if one is not None)
        each = [known if one is None else one for one in states]
        return cls(
            np.concatenate([one.time_ns for one in each]),
            np.concatenate([one.words for one in each]),
            np.concatenate([one.finished for one in each]),
            _joined([one.flow_matrix for one in each]),
            _joined([one.probe_rtt_ns for one in each]),
            _joined([one.flows for one in each]),
        )


def _joined(parts: Sequence[npt.NDArray[Scalar] | None]) -> npt.NDArray[Scalar] | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None
