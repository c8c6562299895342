"""The emulation backend of networks: an emulator, driven through netlink and shared memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

import numpy as np

from dcgym.backends.base import Mask, TimeArray
from dcgym.backends.emulation.audit.fidelity import FidelityAudit
from dcgym.backends.emulation.audit.machine_load import MachineLoad
from dcgym.backends.emulation.capabilities import NETWORK, network_with
from dcgym.backends.emulation.network.actuators import START_DELAY_NS
from dcgym.backends.emulation.network.checks import Controls, check_needs, read_controls
from dcgym.backends.emulation.network.flow_agents import FlowAgents
from dcgym.backends.emulation.network.lab import NetworkLab
from dcgym.backends.emulation.network.running import RunningNetwork, build_network
from dcgym.backends.emulation.network.telemetry import NetworkTelemetry
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.emulation.session.session import EmulatorSession
from dcgym.backends.emulation.wire.message import Descriptor
from dcgym.backends.emulation.wire.messages import (
    Done,
    Prepare,
    Prepared,
    ReadApplications,
    ReadEvents,
    ReadProcesses,
    Records,
    StartTraffic,
)
from dcgym.backends.needs import NetworkNeeds
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
from dcgym.config import check_in, check_int
from dcgym.errors import BackendError, FeatureNotSupported, needs_reset
from dcgym.monitors import Snapshot, StateWords
from dcgym.monitors.network.link_delays import LinkDelayView
from dcgym.native import require
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import EventLog
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands, NetworkState
from dcgym.topologies import Topology
from dcgym.traffic import Plan
from dcgym.traffic.generators.generator import plan_file
from dcgym.traffic.generators.tools import NATIVE, require_generator
from dcgym.traffic.plans.applications import APPS, AppPlan

__all__ = ["EmulationNetwork"]

T = TypeVar("T")


class EmulationNetwork:
    """Real hosts, queues and TCP, one copy; see `dcgym.backends.base.Network` for the calls.

    The network is built anew where a plan of applications follows one of flows, or the reverse.

    Args:
        needs: The network, or what a task needs of it.
        options: What forwards its packets and what sends them; the defaults if None.

    Raises:
        ConfigError: A link has a delay, jitter, loss or MTU that the emulation cannot make, or
            switches or generators of this kind cannot do what is needed.

    Attributes:
        topology: The network.
        options: Its options.
        capabilities: What it can do with them.
    """

    name = "emulation"
    capabilities = NETWORK

    def __init__(
        self, needs: NetworkNeeds | Topology, options: NetworkOptions | None = None
    ) -> None:
        self.options = NetworkOptions() if options is None else options
        self._needs = NetworkNeeds(topology=needs) if isinstance(needs, Topology) else needs
        self.topology = self._needs.topology
        self.capabilities = network_with(self.options)
        check_needs(self._needs, self.options)
        self._congestion_control: Mapping[str, str] = {}
        self._generator_kind = APPS if self._needs.applications else self.options.generator
        self._network: RunningNetwork | None = None
        self._preflight: Mapping[str, float] | None = None
        self._audit: FidelityAudit | None = None
        self._events = EventLog()
        self._plan: Plan | None = None
        self._agents: FlowAgents | None = None
        self._steered = 0
        self._start_ns = 0
        self._layout = StateWords(len(self.topology.switch_ports), len(self.topology.hosts))

    def start(self) -> None:
        """Build the network, which `reset` does else; nothing where it runs already.

        Raises:
            FeatureNotSupported: Not root, or something is not installed.
            BackendError: The build failed.
        """
        if self._network is not None and not self._network.session.is_closed:
            return
        if self._generator_kind != APPS:
            require_generator(self._generator_kind)
        self._native = require()
        self._preflight, self._audit = None, None
        self._agents = None
        self._network = build_network(self._needs, self.options, self._generator_kind)

    def reset(self, episodes: Sequence[NetworkEpisode | None]) -> None:
        """Clear everything in place and start the plan.

        Args:
            episodes: The episode. Its seed is that of the links' jitter and losses: the kernel
                cannot be seeded, and the plan is drawn.

        Raises:
            ConfigError: The episode does not fit the network.
            BackendError: The network died, or did not come to rest.
        """
        [episode] = episodes
        if episode is not None:
            self._begin(episode)

    def _begin(self, episode: NetworkEpisode) -> None:
        if episode.events and not self.capabilities.events:
            hint = "its routes are static, nothing reroutes; use switch='ebpf', or no events"
            raise FeatureNotSupported(f"events with switch={self.options.switch!r}", hint)
        controls = read_controls(self.topology, episode)
        episode.plan.check(self.topology)
        self._take_plan(episode.plan)
        self.start()
        network = self._running
        network.cut_flows()
        if self.options.preflight and self._preflight is None:
            self._preflight = network.measure_links()
        self._prepare(network.session, episode, controls)
        self._events = EventLog(episode.events, _event_reader(network.session))
        network.paths.reset()
        network.flush()
        network.actuators.release()
        network.telemetry.begin(network.actuators.link_rates_bps)
        links = network.watch_links(episode.events)
        self._audit = FidelityAudit(self._machine_load(network), links, self._preflight)
        self._collect()
        self._start_ns = time.monotonic_ns() + START_DELAY_NS
        network.session.call(StartTraffic(self._start_ns), Done)
        self._events.begin(self._start_ns)
        network.telemetry.run_in_background()

    def _take_plan(self, plan: Plan) -> None:
        """Note the plan, and end a network that is dead or has another kind of generator."""
        wanted = self.options.generator
        if isinstance(plan, AppPlan):
            check_needs(replace(self._needs, applications=True), self.options)
            plan.check_machine()
            wanted = APPS
        network = self._network
        if network is not None and (network.session.death() or wanted != network.generator):
            self.close()
        self._generator_kind, self._plan = wanted, plan

    def _prepare(
        self, session: EmulatorSession, episode: NetworkEpisode, controls: Controls
    ) -> None:
        names = [host.name for host in self.topology.hosts]
        plan = Descriptor(plan_file(episode.plan, names))
        try:
            request = Prepare(
                n_flows=len(episode.plan),
                congestion_control=controls.of_hosts,
                controls=controls.rows,
                marking=episode.marking,
                events=tuple(event.to_dict() for event in episode.events),
                plan=plan,
                seed=episode.seed,
            )
            prepared = session.call(request, Prepared)
        finally:
            os.close(plan)
        self._congestion_control = prepared.congestion_control
        self._steered = episode.steered
        if prepared.agent_maps:
            self._agents = FlowAgents(self.topology, prepared.agent_maps)
        if self._agents is not None:
            self._agents.begin(episode.plan)

    def apply(self, commands: NetworkCommands, mask: Mask | None = None) -> TimeArray:
        """Do what is decided; returns the CLOCK_MONOTONIC ns when all of it was in force, (1,).

        The kernel has acknowledged limits and weights then, and can read the commands to flows.

        Args:
            commands: What.
            mask: Whether to do it, (1,).

        Raises:
            ConfigError: Weights, where the switches are Open vSwitch, whose select groups miss
                unequal ones (openvswitch/ovs-issues 180).
            BackendError: The emulator died, or no host runs dcgym_agent.
        """
        if commands is NOTHING or (mask is not None and not mask[0]):
            return np.array([time.monotonic_ns()])
        rates, weights, flows = commands.rates_bps, commands.path_weights, commands.flow_commands
        if weights is not None:
            check_in("switch", self.options.switch, ("ebpf",))
        agent = None if flows is None else self._agent()
        network, in_force_ns = self._running, 0
        network.session.check_alive()
        if rates is not None:
            in_force_ns = network.actuators.limit(rates[0])
            network.telemetry.note_action(rates[0], in_force_ns)
        if weights is not None:
            in_force_ns = network.paths.apply(weights[0])
        if agent is not None and flows is not None:
            in_force_ns = agent.command(flows, commands.lease_ns)
        if commands.cuts_flows:
            network.cut_flows()
            network.actuators.release()
            in_force_ns = time.monotonic_ns()
        return np.array([in_force_ns or time.monotonic_ns()])

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Sleep until a CLOCK_MONOTONIC time, (1,); returns the overrun in ns, (1,)."""
        [deadline_ns] = until_ns.tolist()
        self._running.telemetry.announce_deadline(deadline_ns)
        overrun_ns = int(self._native.wait_until(deadline_ns))
        if self._audit is not None:
            self._audit.interval(overrun_ns)
            self._running.telemetry.note_deadline(deadline_ns, overrun_ns)
        return np.array([overrun_ns])

    def read(self, mask: Mask | None = None) -> NetworkState:
        """Collect now and read the block.

        Args:
            mask: Of one copy, which is read.

        Raises:
            BackendError: The emulator died or its traffic generator is silent.
        """
        snapshot, network = self._collect(), self._running
        flows = self._agent().states(self._steered) if self._steered else None
        return NetworkState.of(self._layout, snapshot, network.session.generator.finished, flows)

    def _collect(self) -> Snapshot:
        network = self._running
        network.session.check_alive()
        telemetry = network.telemetry
        snapshot = telemetry.collect()
        silent_ns = network.session.check_generator()
        network.check_relay()
        if self._audit is not None:
            self._audit.generator_silence(silent_ns)
            self._audit.links.look(snapshot, telemetry.collected_ns)
        # A network at rest is what it is until its traffic begins.
        begins_ns = max(snapshot.time_ns, self._start_ns)
        return telemetry.complete(replace(snapshot, time_ns=begins_ns))

    def records(self, kind: RecordKind[T], env: int) -> T:
        """Return what is recorded.

        Rows of `APPLICATIONS` have the fields of `AppPlan.rows`, ``outcome`` ("waiting", "running",
        "finished", "failed", "stopped" by its duration, "cut" by the end of the episode),
        ``exit_code`` (None while it runs, minus a signal's number), ``began_s``, ``ended_s`` and
        ``said``, the last line that it printed.

        Rows of `PROCESSES` have ``flow``, ``listens_at`` and ``connects_at``, names of hosts, and
        the command lines ``listener`` and ``connector``. Repetitions of a flow use the same.

        Rows of `EVENT_RECORDS` have ``at_s``, ``action``, ``target``, ``late_us`` (behind its time)
        and ``applied_us`` (until the kernel had done it and the routes were in force). Where routes
        changed, they also have ``routes_changed`` and, all counted from the moment at which the
        interface began to go down or up, ``noticed_us`` (the kernel's report was read) and
        ``recovery_us`` (the last route was in force).

        `CONGESTION_CONTROL` says "kernel" or "bpf" of each algorithm.

        Args:
            kind: Any of these, `ENDED_FLOWS`, or `FIDELITY`.
            env: 0.

        Raises:
            BackendError: The emulator is gone; an event could not be made to happen; or, of the
                fidelity, no episode has run yet.
        """
        check_int("env", env, 0, 0)
        return find_records(kind, self._RECORDS)(self)

    def _applications(self) -> list[Record]:
        if not isinstance(self._plan, AppPlan):
            return []
        became = self._running.session.call(ReadApplications(), Records).records
        return [{**row, **record} for row, record in zip(self._plan.rows(), became, strict=True)]

    def _processes(self) -> list[Record]:
        if not self._has_tool:
            return []
        rows = self._running.session.call(ReadProcesses(), Records).records
        return [dict(row) for row in rows]

    def _fidelity(self) -> Fidelity:
        network = self._running
        if self._audit is None:
            raise needs_reset("no episode has run yet")
        self._audit.starts(*network.session.generator.starts())
        records = network.telemetry.flow_records()
        self._audit.records_lost(network.telemetry.records_lost)
        self._audit.link_delays(network.delay_figures())
        if self._has_tool:
            self._audit.tool_flows(records["outcome"])
        return self._audit.verdict(self._machine_load(network), records)

    _RECORDS: ClassVar[RecordMakers] = {
        ENDED_FLOWS: lambda self: self._running.telemetry.flow_records(),
        APPLICATIONS: _applications,
        PROCESSES: _processes,
        EVENT_RECORDS: lambda self: self._events.records(time.monotonic_ns()),
        CONGESTION_CONTROL: lambda self: self._congestion_control,
        FIDELITY: _fidelity,
    }

    @property
    def lab(self) -> NetworkLab:
        """The workbench of the running network: commands in hosts, pings, counters of drops.

        Raises:
            BackendError: It is not running.
        """
        return self._running.lab

    @property
    def telemetry(self) -> NetworkTelemetry:
        """The counters of the running network, and what shared memory says beside its states.

        Raises:
            BackendError: It is not running.
        """
        return self._running.telemetry

    @property
    def link_delays(self) -> LinkDelayView | None:
        """What is counted of links with a delay; None where no link has one.

        Raises:
            BackendError: The network is not running.
        """
        return self._running.delays

    def close(self) -> None:
        """End the emulator and release every descriptor; a second call does nothing."""
        network, self._network = self._network, None
        if network is not None:
            network.session.close()

    @property
    def _has_tool(self) -> bool:
        return self._generator_kind not in (NATIVE, APPS)

    def _agent(self) -> FlowAgents:
        if self._agents is None:
            raise BackendError("no host runs dcgym_agent, or no episode is running")
        return self._agents

    @property
    def _running(self) -> RunningNetwork:
        network = self._network
        if network is None or network.session.is_closed:
            raise needs_reset("the emulator is not running")
        return network

    @staticmethod
    def _machine_load(network: RunningNetwork) -> MachineLoad:
        return MachineLoad.read(time.monotonic_ns(), network.session.generator_pid)


def _event_reader(session: EmulatorSession) -> Callable[[], list[Record]]:
    # Of the session, not of the network: whoever drops the network ends it.
    return lambda: [dict(record) for record in session.call(ReadEvents(), Records).records]
