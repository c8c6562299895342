"""The contract of backends: one lifecycle, what a backend can do, and three narrow protocols.

A *network* backend runs plans of flows over a topology: its commands and its state are those of
`dcgym.tasks.network.protocol`.
A *pool* backend runs a scenario of balancers and servers: its commands and its state are those of
`dcgym.tasks.balancing.protocol`.
A *placement* backend (`dcgym.backends.placement`) holds VIPs and takes the switch of each.
All share the lifecycle of `Backend`; the session of an environment (`dcgym.envs.session`) decides
when an interval begins and ends, so that no backend has a rule of its own about late actions.

Times are integer nanoseconds of the backend's own clock: CLOCK_MONOTONIC, or simulated time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import RecordKind
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.protocol import PoolCommands, PoolState
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.protocol import NetworkCommands, NetworkState

__all__ = [
    "ANEW",
    "Backend",
    "Capabilities",
    "Network",
    "Pool",
    "Startable",
    "is_backend",
    "made_by",
]

ANEW = "the next reset builds it anew"
"""Advice where a backend died."""

FloatArray: TypeAlias = npt.NDArray[np.float64]
TimeArray: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do; environments and suites ask this and nothing else.

    Attributes:
        real_time: Time passes by itself, so that an action can be late.
        deterministic: The same seed and actions give the same bits.
        copies: Most copies that may be stepped side by side in one process.
        events: Things may happen to links, switches, servers or balancers.
        applications: Hosts can run commands in the place of flows.
        oracles: The truth (remaining work, queues) is known exactly, for policies that need it.
        shadows: A second copy meets the same flows, whatever is done to it: what another policy
            would have made of them is known.
        closed_loops: Users may wait for their flows before they send the next.
        stage_limits: Resources of servers beyond the first may have a limit of flows.
        flow_matrix: Bytes of every source host are counted at every switch port.
        probes: Round trips between chosen hosts can be measured.
        assignments: New flows can wait until an agent names their servers.
        flow_control: Flows of dcgym_agent can be steered.
        copyable: `copy.deepcopy` of it gives a second one, whose episodes go on alike.
        rules: Rules by which balancers can place flows.
        transports: Congestion controls that hosts can run; None where nothing limits them.
        path_rules: Rules by which switches and senders can choose among equal-cost paths.
        largest_hosts: Most hosts or servers of one copy; None for no limit of its own.
    """

    real_time: bool = False
    deterministic: bool = True
    copies: int = 1
    events: bool = False
    applications: bool = False
    oracles: bool = False
    shadows: bool = False
    closed_loops: bool = False
    stage_limits: bool = False
    flow_matrix: bool = False
    probes: bool = False
    assignments: bool = False
    flow_control: bool = False
    copyable: bool = False
    rules: tuple[str, ...] = ()
    transports: tuple[str, ...] | None = None
    path_rules: tuple[str, ...] = ("ecmp",)
    largest_hosts: int | None = None


class Backend(Protocol):
    """What every backend has.

    Construction is cheap, needs no privilege and starts nothing. Any call may raise `BackendError`
    once the backend is dead or silent; after `close`, the next `reset` builds it anew.
    """

    @property
    def name(self) -> str:
        """Name in configurations and records."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; never changes."""

    def close(self) -> None:
        """End everything that was started; a second call does nothing."""


class Network(Backend, Protocol):
    """Copies of one network, stepped together; E copies, H hosts, W weights.

    A backend of one network has arrays of one row; `dcgym.backends.ensemble` makes several of them
    one.
    """

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Clear traffic, queues, commands and events in place, and start the plans.

        Args:
            episodes: Of each copy; None leaves a copy as it is.
        """

    def apply(self, commands: NetworkCommands, mask: Mask | None = None) -> TimeArray:
        """Do what is decided, in some copies, (E,), or in all.

        Returns:
            When it was in force, (E,): of a copy that is not in the mask, or of `NOTHING`, now.

        Raises:
            ConfigError: A command is not allowed, or not one that this backend obeys; none of them
                is done then.
        """

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); a time that has passed changes nothing.

        Returns:
            By how much each time was missed, (E,).
        """

    def read(self, mask: Mask | None = None) -> NetworkState:
        """Read the states of some copies at the end of their `advance`, or later.

        A new interval begins for their peak queues. A state's time is that of the plan's beginning,
        which flows and events count from, or later: until then a network is at rest.

        Args:
            mask: Which, (E,); None for all. The rows of the others say nothing.
        """

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded of a copy.

        Args:
            kind: `ENDED_FLOWS`, `APPLICATIONS`, `PROCESSES`, `CONGESTION_CONTROL`, `EVENT_RECORDS`
                or `FIDELITY`.
            env: Number of the copy.
        """


@runtime_checkable
class Startable(Protocol):
    """What a network may have beside that takes long to build: others must not run meanwhile."""

    def start(self) -> None:
        """Build the network, which `reset` does else; nothing where it runs already."""


class Pool(Backend, Protocol):
    """Copies of one server pool, stepped together; E copies, B balancers, N servers.

    The clock of each copy begins at 0 with its reset; it runs from the first `advance` on.
    """

    def reset(self, seeds: npt.NDArray[np.uint64], mask: Mask | None = None) -> None:
        """Begin anew with these seeds, (E,): empty servers, rule "weighted", equal weights."""

    def apply(self, commands: PoolCommands, mask: Mask | None = None) -> TimeArray:
        """Do what is decided, in some copies, (E,), or in all; returns when it was in force, (E,).

        Raises:
            ConfigError: A command is not allowed, or not one that this backend obeys; none of them
                is done then.
        """

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); returns by how much each was missed, (E,)."""

    def read(self) -> PoolState:
        """Return what is known of all copies."""

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded of a copy.

        Args:
            kind: `FLOWS` or `OPEN_FLOWS` (`dcgym.tasks.balancing.records.flow_dtype`),
                `EVENT_RECORDS`, `SUMMARY` or `FIDELITY`.
            env: Number of the copy.
        """


def is_backend(found: object) -> bool:
    """Tell whether something is a backend, and not what makes one.

    Args:
        found: What a configuration names.
    """
    return not isinstance(found, type) and isinstance(
        getattr(found, "capabilities", None), Capabilities
    )


def made_by(make: object, kind: str, *arguments: object) -> Any:
    """Return the backend that a user's function makes.

    Args:
        make: What the user wrote.
        kind: What it should make, for the error message.
        *arguments: Its arguments.

    Raises:
        ConfigError: It is no function, or what it returns is no backend.
    """
    allowed = f"a name, or a function that makes {kind}"
    if not callable(make):
        raise ConfigError("backend", make, allowed)
    made = make(*arguments)
    if not is_backend(made):
        raise ConfigError("backend", made, allowed)
    return made
