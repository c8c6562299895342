"""The contract of backends: one lifecycle, what a backend can do, and three narrow protocols.

A *network* backend runs a plan of flows over a topology and takes rate limits and path weights.
A *pool* backend runs a scenario of balancers and servers: its commands and its state are
`dcgym.tasks.balancing.protocol`'s.
A *placement* backend (`dcgym.backends.placement`) holds VIPs and takes the switch of each.
All share the lifecycle of `Backend`; the session of an environment (`dcgym.envs.session`) decides
when an interval begins and ends, so that no backend has a rule of its own about late actions.

Times are integer nanoseconds of the backend's own clock: CLOCK_MONOTONIC, or simulated time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import Fidelity, Record, RecordKind
from dcgym.errors import ConfigError
from dcgym.monitors import Snapshot, Snapshots
from dcgym.tasks.balancing.protocol import PoolCommands, PoolState
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.topologies import Topology

__all__ = [
    "ANEW",
    "Backend",
    "Capabilities",
    "Network",
    "NetworkBatch",
    "Pool",
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
        flow_control: Flows of dcgym_agent can be steered: the network obeys
            `dcgym.tasks.flows.commands.FlowControls` too.
        copyable: `copy.deepcopy` of it gives a second one, whose episodes go on alike.
        compiled_runs: Native code can run an interval and measure it in one call: its batches obey
            `dcgym.tasks.network.compiled.CompiledRuns` too.
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
    compiled_runs: bool = False
    rules: tuple[str, ...] = ()
    transports: tuple[str, ...] | None = None
    path_rules: tuple[str, ...] = ("ecmp",)
    largest_hosts: int | None = None


class Backend(Protocol):
    """What every backend has.

    Construction is cheap, needs no privilege and starts nothing. Any call may raise `BackendError`
    once the backend is dead or silent; after `close`, the next `start` or `reset` builds it anew.
    """

    @property
    def name(self) -> str:
        """Name in configurations and records."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; never changes."""

    def close(self) -> None:
        """End everything that was started; a second call does nothing."""


@runtime_checkable
class Network(Backend, Protocol):
    """One network that runs traffic, takes limits and weights, and shows its counters."""

    @property
    def topology(self) -> Topology:
        """The network."""

    @property
    def congestion_control(self) -> Mapping[str, str]:
        """Implementation of each algorithm that the hosts of this episode run."""

    def start(self) -> None:
        """Build the network; does nothing when it runs already."""

    def reset(self, episode: NetworkEpisode) -> None:
        """Clear traffic, queues, limits, weights and events in place, and start the plan."""

    def apply_rates(self, rates_bps: npt.NDArray[np.uint64]) -> int:
        """Limit each host, shape (H,); returns the time at which every limit was in force."""

    def apply_weights(self, weights: FloatArray) -> int:
        """Weigh the equal-cost ports of the switches; returns the time at which they were in force.

        Args:
            weights: 0 or more, one for each port of each group with a choice, in the order of
                `dcgym.topologies.next_hop_groups`. Where a group's are all 0 they count as equal.
        """

    def advance(self, until_ns: int) -> int:
        """Let the network run until a time; returns by how much it was missed, in ns."""

    def now_ns(self) -> int:
        """Return the time of the clock that snapshots are stamped with."""

    def snapshot(self) -> Snapshot:
        """Read one consistent state, and begin a new interval for the peak queues.

        Its time is that of the plan's beginning, which flows and events count from, or later: until
        then a network is at rest.
        """

    def finished(self) -> bool:
        """Tell whether every flow of the plan has ended."""

    def stop_traffic(self) -> None:
        """Cut every flow that still runs; `flow_records` then holds these too."""

    def flow_records(self) -> npt.NDArray[Any]:
        """Return the flows that ended since the reset (`traffic.generators.view.RECORD_DTYPE`).

        New ones follow those that earlier calls returned, while the episode runs.
        """

    def application_records(self) -> list[Record]:
        """Return what became of each application of the plan; empty for a plan of flows."""

    def process_records(self) -> list[Record]:
        """Return the external processes that send the plan's flows; empty where none do."""

    def event_records(self) -> list[Record]:
        """Return the events that have taken effect since the last reset."""

    def fidelity(self) -> Fidelity:
        """Say how far the episode can be believed."""


@runtime_checkable
class NetworkBatch(Backend, Protocol):
    """Several copies of one network, stepped together; E copies, H hosts, W weights.

    A backend that runs many copies at once implements this itself; `NetworkEnsemble` makes one of
    single networks.
    """

    @property
    def topology(self) -> Topology:
        """The network, the same in every copy."""

    @property
    def n_envs(self) -> int:
        """Number of copies."""

    def congestion_control(self, env: int) -> Mapping[str, str]:
        """Return `Network.congestion_control` of a copy."""

    def start(self) -> None:
        """Build all copies."""

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Begin an episode in each copy that has one here; None leaves a copy as it is."""

    def apply_rates(self, rates_bps: npt.NDArray[np.uint64]) -> TimeArray:
        """Limit the hosts of every copy, shape (E, H); returns when that was in force, (E,)."""

    def apply_weights(self, weights: FloatArray) -> TimeArray:
        """Weigh the paths of every copy, shape (E, W); returns when that was in force, (E,)."""

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); a time that has passed changes nothing.

        Returns:
            By how much each time was missed, (E,).
        """

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""

    def snapshots(self, mask: Mask | None = None) -> Snapshots:
        """Read the states of some copies at the end of their `advance`, or later.

        Args:
            mask: Which, (E,); None for all. The rows of the others say nothing.
        """

    def snapshot(self, env: int) -> Snapshot:
        """Read the state of a copy at the end of its `advance`, or later."""

    def finished(self) -> Mask:
        """Tell in which copies every flow of the plan has ended, (E,)."""

    def stop_traffic(self, env: int) -> None:
        """Cut every flow of a copy that still runs."""

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the flows of a copy that ended since its reset."""

    def application_records(self, env: int) -> list[Record]:
        """Return what became of each application of a copy's plan."""

    def process_records(self, env: int) -> list[Record]:
        """Return the external processes that send the flows of a copy's plan."""

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy since its reset."""

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""


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
    if not isinstance(getattr(made, "capabilities", None), Capabilities):
        raise ConfigError("backend", made, allowed)
    return made
