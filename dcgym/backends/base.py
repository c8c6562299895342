"""The contract of backends: one lifecycle, one protocol, and what a backend can do.

The protocol is generic in what an episode is, what may be decided and what may be read: `Network`,
`Pool` and `DevicePool` are its names for the commands and states of `dcgym.tasks.*.protocol`.
A *placement* backend (`dcgym.backends.placement`) holds VIPs and takes the switch of each.
The session of an environment (`dcgym.envs.session`) decides when an interval begins and ends, so
that no backend has a rule of its own about late actions.

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
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode, DeviceState
from dcgym.tasks.balancing.protocol import PoolCommands, PoolState
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.protocol import NetworkCommands, NetworkState

__all__ = [
    "ANEW",
    "Backend",
    "Capabilities",
    "DevicePool",
    "Lifecycle",
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
Episode = TypeVar("Episode", contravariant=True)
Commands = TypeVar("Commands", contravariant=True)
State = TypeVar("State", covariant=True)


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
        vips: A pool may have several virtual addresses.
        flow_matrix: Bytes of every source host are counted at every switch port.
        probes: Round trips between chosen hosts can be measured.
        assignments: New flows can wait until an agent names their servers.
        eligible: Servers can be taken in and out of service.
        flow_control: Flows of dcgym_agent can be steered.
        copyable: `copy.deepcopy` of it gives a second one, whose episodes go on alike.
        rules: Rules by which balancers can place flows.
        linux_modules: Hosts can run congestion controls that only Linux has.
        path_rules: Rules by which switches and senders can choose among equal-cost paths.
        path_weights: Equal-cost paths can have unequal weights.
        draws_ahead: An episode's traffic is drawn before it begins, up to a horizon.
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
    vips: bool = False
    flow_matrix: bool = False
    probes: bool = False
    assignments: bool = False
    eligible: bool = False
    flow_control: bool = False
    copyable: bool = False
    rules: tuple[str, ...] = ()
    linux_modules: bool = True
    path_rules: tuple[str, ...] = ("ecmp",)
    path_weights: bool = True
    draws_ahead: bool = False
    largest_hosts: int | None = None


class Lifecycle(Protocol):
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


class Backend(Lifecycle, Protocol[Episode, Commands, State]):
    """Copies of what a task runs on, stepped together: E copies.

    An episode is what a copy is told when it begins, `Commands` are what may be decided, and
    `State` is what may be read. A backend of one copy has arrays of one row.
    """

    def reset(self, episodes: Sequence[Episode | None]) -> None:
        """Begin anew, in place: nothing is left of the traffic, queues and commands before.

        Args:
            episodes: Of each copy; None leaves a copy as it is.

        Raises:
            ConfigError: An episode is not allowed.
        """

    def apply(self, commands: Commands, mask: Mask | None = None) -> TimeArray:
        """Do what is decided, in some copies, (E,), or in all.

        Returns:
            When it was in force, (E,): of a copy that is not in the mask, or where nothing is
            decided, now.

        Raises:
            ConfigError: A command is not allowed, or not one that this backend obeys; none of them
                is done then.
        """

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); a time that has passed changes nothing.

        Returns:
            By how much each time was missed, (E,).
        """

    def read(self, mask: Mask | None = None) -> State:
        """Read the states of some copies at the end of their `advance`, or later.

        What is counted since the last look begins anew in them.

        Args:
            mask: Which, (E,); None for all. The rows of the others say nothing.
        """

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded of a copy, of the kinds that stand with its alias.

        Args:
            kind: What (`dcgym.backends.records`).
            env: Number of the copy.
        """


Network: TypeAlias = Backend[NetworkEpisode, NetworkCommands, NetworkState]
"""Runs plans of flows over a topology; H hosts, W weights.

A state's time is that of the plan's beginning, which flows and events count from, or later: until
then a network is at rest. Records: `ENDED_FLOWS`, `APPLICATIONS`, `PROCESSES`,
`CONGESTION_CONTROL`, `EVENT_RECORDS` and `FIDELITY`. `dcgym.backends.ensemble` makes several
networks of one copy one.
"""

Pool: TypeAlias = Backend[int, PoolCommands, PoolState]
"""Runs a scenario of B balancers and N servers; an episode is its seed, from 0 to 2**64 - 1.

It begins with empty servers, the rule "weighted" and equal weights. The clock of each copy begins
at 0 with its reset, and runs from the first `advance` on. Records: `FLOWS` and `OPEN_FLOWS`
(`dcgym.tasks.balancing.records.flow_dtype`), `EVENT_RECORDS`, `SUMMARY` and `FIDELITY`.
"""

DevicePool: TypeAlias = Backend[DeviceEpisode, DeviceCommands, DeviceState]
"""Runs requests on N servers with up to D devices each.

It begins with idle devices, no reports and the configured weights. The clock of each copy begins at
0 with its reset. Records: `FLOWS` and `OPEN_FLOWS`, requests here (`AcceleratorTwin.records`);
`EVENT_RECORDS` and `FIDELITY`.
"""


@runtime_checkable
class Startable(Protocol):
    """What a network may have beside that takes long to build: others must not run meanwhile."""

    def start(self) -> None:
        """Build the network, which `reset` does else; nothing where it runs already."""


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
