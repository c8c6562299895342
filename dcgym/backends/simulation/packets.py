"""The packet twin: copies of a network, packet by packet, in simulated time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Mask, TimeArray
from dcgym.backends.records import (
    APPLICATIONS,
    CONGESTION_CONTROL,
    ENDED_FLOWS,
    EVENT_RECORDS,
    FIDELITY,
    PROCESSES,
    Fidelity,
    Record,
    RecordKind,
    RecordMakers,
    find_records,
)
from dcgym.backends.simulation.network_config import (
    START_DELAY_NS,
    check_memory,
    check_mtus,
    episode_config,
    network_config,
    opposite_ports,
)
from dcgym.backends.simulation.network_events import NetworkEvents
from dcgym.config import check_in, check_int
from dcgym.errors import ConfigError, needs_reset
from dcgym.monitors import StateWords, read_agent_flows
from dcgym.native import require
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.path_rules import ECMP, PATH_RULES, PathChoice
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands, NetworkState
from dcgym.topologies import Topology, next_hop_groups
from dcgym.traffic.generators.view import RECORD_DTYPE
from dcgym.units import parse_duration

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CAPABILITIES", "MOST_THREADS", "TIMER_LATENESS", "PacketTwin"]

CAPABILITIES = Capabilities(
    copies=65_536,
    events=True,
    flow_matrix=True,
    flow_control=True,
    copyable=True,
    linux_modules=False,
    path_rules=tuple(PATH_RULES),
)
"""Of the twin: time waits, and the same seed and actions give the same bits."""

TIMER_LATENESS = "16us"
"""Mean of how late timers come, as measured in the emulation."""

MOST_THREADS = 256

Flags: TypeAlias = npt.NDArray[np.uint8]
T = TypeVar("T")


class PacketTwin:
    """Queues, routes and TCP of the emulation in simulated time (`dcgym.backends.base.Network`).

    The clock of each copy begins at 0 with its reset. The course of an episode depends on its plan,
    its seed and on what is done to it alone, never on the number of copies or threads: bit for bit.

    Args:
        topology: The network, the same in every copy.
        n_envs: Number of copies.
        flow_matrix: Count the bytes of every host at every switch port.
        paths: How flows, flowlets or packets are spread over equal-cost ports. Any number of flows
            above 0 that switches remember stands for all.
        threads: Threads that `advance` uses.
        timer_lateness: Mean of how late the timers of queues, pacing and link delay come, drawn by
            the episode's seed; tokens make the time of a queue good, as in the kernel. 0: never,
            and the kernel's ticks begin with the episode.

    Raises:
        ConfigError: A value is not allowed.

    Attributes:
        topology: The network.
        n_envs: Number of copies.
    """

    name = "simulation"
    capabilities = CAPABILITIES

    def __init__(
        self,
        topology: Topology,
        n_envs: int = 1,
        flow_matrix: bool = False,
        paths: PathChoice = ECMP,
        threads: int = 1,
        timer_lateness: str | int | float = TIMER_LATENESS,
    ) -> None:
        check_mtus(topology)
        self.topology = topology
        self.n_envs = check_int("n_envs", n_envs, 1, CAPABILITIES.copies)
        self._threads = check_int("threads", threads, 1, MOST_THREADS)
        self._has_flow_matrix = check_in("flow_matrix", flow_matrix, (True, False))
        check_memory(topology, self.n_envs, self._has_flow_matrix)
        self._config = network_config(
            topology,
            flow_matrix,
            paths,
            parse_duration(timer_lateness, "timer_lateness"),
        )
        # Number and first weight of each group with a choice.
        self._choices: list[tuple[int, int]] = []
        self._n_weights = 0
        for number, group in enumerate(next_hop_groups(topology)):
            if group.has_choice:
                self._choices.append((number, self._n_weights))
                self._n_weights += len(group.ports)
        self._layout = StateWords(len(topology.switch_ports), len(topology.hosts))
        self._steered = 0
        self._twin: Any = None
        self._runner: object = None
        self._begun = np.zeros(self.n_envs, np.bool_)
        self._is_running = False
        self._now_ns: TimeArray = np.zeros(self.n_envs, np.int64)
        self._late_ns: TimeArray = np.zeros(self.n_envs, np.int64)
        self._everybody = np.ones(self.n_envs, np.uint8)
        # Of the copies whose episode has any.
        self._events: dict[int, NetworkEvents] = {}
        self._controls: list[Mapping[str, str]] = [{}] * self.n_envs

    def start(self) -> None:
        """Build the copies; does nothing when they are there already.

        Raises:
            FeatureNotSupported: The twin was not built.
        """
        if self._twin is None:
            self._twin = require("_packets").PacketBatch(
                self._config,
                (self._layout.size, *self._layout.starts()),
                self.n_envs,
                self._threads,
                opposite_ports(self.topology),
                self._choices,
                self._n_weights,
            )
            self._runner = self._twin.runner()

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Clear everything and start the plan, in each copy that has an episode here.

        Args:
            episodes: What is run; None leaves a copy as it is.

        Raises:
            ConfigError: An episode does not fit the network, or the twin lacks something.
        """
        for episode in episodes:
            if episode is not None:
                episode.plan.check(self.topology)
        configs = [None if one is None else episode_config(self.topology, one) for one in episodes]
        self.start()
        for env, (episode, config) in enumerate(zip(episodes, configs, strict=True)):
            if episode is None or config is None:
                continue
            network = self._twin.network(env)
            network.reset(config)
            self._begun[env] = True
            self._events.pop(env, None)
            if episode.events:
                self._events[env] = NetworkEvents(
                    self.topology, network, episode.events, START_DELAY_NS
                )
            self._controls[env] = dict.fromkeys(config["congestion_control"], self.name)
            self._steered = episode.steered
        self._is_running = bool(self._begun.all())
        self._now_ns = self._twin.now_ns()

    def apply(self, commands: NetworkCommands, mask: Mask | None = None) -> TimeArray:
        """Do what is decided; returns the present times, (E,).

        Only limits that differ change a token bucket: each change fills it, as in the kernel.

        Args:
            commands: What.
            mask: Which copies, (E,); None for all.

        Raises:
            ConfigError: Something has another shape. Nothing is done then.
        """
        if commands is NOTHING:
            return self._now_ns
        twin, rates, weights = self._running, commands.rates_bps, commands.path_weights
        flows = commands.flow_commands
        if rates is not None:
            _check_shape("rates_bps", rates, (self.n_envs, self._layout.n_hosts))
        if weights is not None:
            _check_shape("path_weights", weights, (self.n_envs, self._n_weights))
        if flows is not None:
            _check_shape("generations", flows.generations[:, 0], (self.n_envs,))
        chosen = self._everybody if mask is None else self._chosen(mask)
        if rates is not None:
            twin.set_host_rates(rates, chosen)
        if weights is not None:
            twin.set_weights(weights, chosen)
            self._note_weights(weights, chosen)
        if flows is not None:
            lease_us = (np.maximum(self._now_ns + commands.lease_ns, 0) // 1000).astype(np.uint64)
            twin.command_flows(
                flows.generations,
                flows.flags,
                flows.multipliers_q16,
                flows.cwnds_packets,
                flows.rates_bytes_per_s,
                lease_us,
                chosen,
            )
        if commands.cuts_flows:
            for env in np.flatnonzero(chosen).tolist():
                self.network(env).stop_traffic()
        return self._now_ns

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Simulate each copy until its time, (E,), on all threads; nothing is ever late.

        The interpreter lock is released meanwhile. A time that has passed changes nothing.
        """
        _check_shape("until_ns", until_ns, (self.n_envs,))
        twin = self._running
        try:
            if self._events:
                self._let_happen(until_ns)
            twin.advance(until_ns)
        finally:
            # Ctrl-C leaves the copies amid the interval.
            self._now_ns = twin.now_ns()
        return self._late_ns

    def run_measured(self, until_ns: TimeArray, measure: Callable[[object], TimeArray]) -> None:
        """Simulate each copy until its time, as `advance` does, and read its state.

        Args:
            until_ns: The times, (E,).
            measure: Calls the runner in the capsule that it is given
                (`dcgym.tasks.network.compiled.CompiledRuns`).
        """
        _check_shape("until_ns", until_ns, (self.n_envs,))
        if not self._is_running:
            raise needs_reset()
        try:
            if self._events:
                self._let_happen(until_ns)
            self._now_ns = measure(self._runner)
        except BaseException:
            self._now_ns = self._twin.now_ns()
            raise

    def read(self, mask: Mask | None = None) -> NetworkState:
        """Read the states of some copies, and begin a new interval for their peak queues.

        Args:
            mask: Which, (E,); None for all.
        """
        twin = self._running
        flows = None
        if self._steered:
            found = read_agent_flows(twin.flows(self._steered))
            flows = found.reshape(self.n_envs, self._steered)
        return NetworkState(
            # A network at rest is what it is until its traffic begins.
            np.maximum(self._now_ns, START_DELAY_NS),
            twin.states(self._everybody if mask is None else self._chosen(mask)),
            twin.finished(),
            twin.matrix() if self._has_flow_matrix else None,
            flows=flows,
        )

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded of a copy; routes follow events at once.

        Args:
            kind: `ENDED_FLOWS`, `EVENT_RECORDS`, `CONGESTION_CONTROL`, "simulation" of each, or
                `FIDELITY`: nothing disturbs a simulation, and how true it is says `docs`' page on
                the twin. `APPLICATIONS` and `PROCESSES` are none.
            env: Number of the copy.
        """
        return find_records(kind, self._RECORDS)(self, check_int("env", env, 0, self.n_envs - 1))

    def _ended_flows(self, env: int) -> npt.NDArray[np.void]:
        return np.frombuffer(self.network(env).records(), RECORD_DTYPE).copy()

    def _happened(self, env: int) -> list[Record]:
        return list(self._events[env].records) if env in self._events else []

    def _controls_of(self, env: int) -> Mapping[str, str]:
        return self._controls[env]

    def _none(self, env: int) -> list[Record]:
        return []

    def _fidelity(self, env: int) -> Fidelity:
        return Fidelity()

    _RECORDS: ClassVar[RecordMakers] = {
        ENDED_FLOWS: _ended_flows,
        EVENT_RECORDS: _happened,
        CONGESTION_CONTROL: _controls_of,
        APPLICATIONS: _none,
        PROCESSES: _none,
        FIDELITY: _fidelity,
    }

    def network(self, env: int) -> Any:
        """Return a compiled network, for probes and traces (`dcgym.native._packets.Network`).

        Args:
            env: Number of the copy.
        """
        return self._running.network(env)

    def close(self) -> None:
        """Forget the copies; a second call does nothing."""
        self._twin, self._runner, self._is_running = None, None, False
        self._events.clear()
        self._begun[:] = False

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return copies whose episodes go on alike; the two share what never changes."""
        copied = memo[id(self)] = copy.copy(self)
        copied._begun, copied._controls = self._begun.copy(), list(self._controls)
        copied._events = {}
        if self._twin is not None:
            copied._twin = self._twin.copy()
            copied._runner = copied._twin.runner()
            copied._events = {
                env: events.on(copied._twin.network(env)) for env, events in self._events.items()
            }
        return copied

    def _let_happen(self, until_ns: TimeArray) -> None:
        """Run the copies that have events to the last of them before their times."""
        for env, events in self._events.items():
            network = self._twin.network(env)
            for at_ns in events.due(int(until_ns[env])):
                network.advance(at_ns)
                events.happen()

    def _note_weights(self, weights: npt.NDArray[np.float64], chosen: Flags) -> None:
        """Have the weights of groups that lose a port, or get one back, at hand."""
        ends = [first for _, first in self._choices[1:]] + [self._n_weights]
        for env, events in self._events.items():
            if chosen[env]:
                for (number, first), end in zip(self._choices, ends, strict=True):
                    events.note_weights(number, weights[env, first:end])

    def _chosen(self, mask: Mask) -> Flags:
        """Return which copies are meant, (E,)."""
        _check_shape("mask", mask, (self.n_envs,))
        return mask.view(np.uint8)

    @property
    def _running(self) -> Any:
        if not self._is_running:
            raise needs_reset()
        return self._twin


def _check_shape(field: str, values: npt.NDArray[np.generic], shape: tuple[int, ...]) -> None:
    # The compiled twin reads as much as it has copies and hosts.
    if values.shape != shape:
        raise ConfigError(field, f"of shape {values.shape}", f"of shape {shape}")
