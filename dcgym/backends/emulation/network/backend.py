"""The emulation backend of networks: an emulator, driven through netlink and shared memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation import capabilities
from dcgym.backends.emulation.audit.fidelity import FidelityAudit
from dcgym.backends.emulation.audit.links import LinkAudit, rate_bounds_bps
from dcgym.backends.emulation.audit.machine_load import MachineLoad
from dcgym.backends.emulation.network.actuators import START_DELAY_NS
from dcgym.backends.emulation.network.flow_agents import FlowAgents
from dcgym.backends.emulation.network.lab import NetworkLab
from dcgym.backends.emulation.network.options import NetworkOptions
from dcgym.backends.emulation.network.running import RunningNetwork, build_network
from dcgym.backends.emulation.session.session import EmulatorSession
from dcgym.backends.emulation.wire.delays import check_delays
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
from dcgym.backends.emulation.wire.mtus import check_mtus
from dcgym.backends.records import Fidelity, Record
from dcgym.config import check_in
from dcgym.errors import BackendError, ConfigError, needs_reset
from dcgym.monitors import Snapshot
from dcgym.monitors.network.link_delays import LinkDelayView
from dcgym.native import require
from dcgym.tasks.flows.commands import FlowCommands
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.events import Event, EventLog, check_events
from dcgym.topologies import Topology
from dcgym.traffic import Plan
from dcgym.traffic.generators.generator import plan_file
from dcgym.traffic.generators.tools import NATIVE, require_generator
from dcgym.traffic.plans.applications import APPS, AppPlan

__all__ = ["EmulationNetwork"]


class EmulationNetwork:
    """Real hosts, queues and TCP; see `dcgym.backends.base.Network` for the calls.

    Args:
        topology: The network.
        options: What its switches do and what is measured; the defaults if None.

    Raises:
        ConfigError: A link has a delay, jitter, loss or MTU that the emulation cannot make.

    Attributes:
        topology: The network.
        options: Its options.
        congestion_control: Implementation of each algorithm of the episode, "kernel" or "bpf".
    """

    name = "emulation"
    capabilities = capabilities.NETWORK

    def __init__(self, topology: Topology, options: NetworkOptions | None = None) -> None:
        self.options = NetworkOptions() if options is None else options
        check_delays(topology, self.options.switch)
        check_mtus(topology, self.options.switch)
        self.topology = topology
        self.congestion_control: Mapping[str, str] = {}
        self._generator_kind = self.options.generator
        self._network: RunningNetwork | None = None
        self._preflight: Mapping[str, float] | None = None
        self._audit: FidelityAudit | None = None
        self._events = EventLog()
        self._plan: Plan | None = None
        self._agents: FlowAgents | None = None
        self._start_ns = 0

    def start(self) -> None:
        """Build the network; does nothing when it runs already.

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
        self._network = build_network(self.topology, self.options, self._generator_kind)

    def reset(self, episode: NetworkEpisode) -> None:
        """Clear everything in place and start the plan.

        Args:
            episode: Its seed is that of the links' jitter and losses. The kernel cannot be seeded,
                and the plan is drawn.

        Raises:
            ConfigError: The episode does not fit the network.
            BackendError: The network died, or did not come to rest.
        """
        check_events(episode.events, self.options.switch)
        for name in episode.congestion_control.values():
            CONGESTION_CONTROLS.find(name)
        episode.plan.check(self.topology)
        self._take_plan(episode.plan)
        self.start()
        network = self._running
        network.cut_flows()
        if self.options.preflight and self._preflight is None:
            self._preflight = network.measure_links()
        self._prepare(network.session, episode)
        self._events = EventLog(episode.events, _event_reader(network.session))
        network.paths.reset()
        network.flush()
        network.actuators.release()
        network.telemetry.begin(network.actuators.link_rates_bps)
        links = _watch_links(network, episode.events)
        self._audit = FidelityAudit(self._machine_load(network), links, self._preflight)
        self.snapshot()
        self._start_ns = time.monotonic_ns() + START_DELAY_NS
        network.session.call(StartTraffic(self._start_ns), Done)
        self._events.begin(self._start_ns)
        network.telemetry.run_in_background()

    def _take_plan(self, plan: Plan) -> None:
        """Note the plan, and end a network that is dead or has another kind of generator."""
        wanted = self.options.flow_generator
        if isinstance(plan, AppPlan):
            if self.options.probes:
                probes = [list(pair) for pair in self.options.probes]
                raise ConfigError("probes", probes, "none with applications")
            plan.check_machine()
            wanted = APPS
        network = self._network
        if network is not None and (network.session.death() or wanted != network.generator):
            self.close()
        self._generator_kind, self._plan = wanted, plan

    def _prepare(self, session: EmulatorSession, episode: NetworkEpisode) -> None:
        names = [host.name for host in self.topology.hosts]
        plan = Descriptor(plan_file(episode.plan, names))
        try:
            request = Prepare(
                n_flows=len(episode.plan),
                congestion_control=dict.fromkeys(names, "cubic") | dict(episode.congestion_control),
                marking=episode.marking,
                events=tuple(event.to_dict() for event in episode.events),
                plan=plan,
                seed=episode.seed,
            )
            prepared = session.call(request, Prepared)
        finally:
            os.close(plan)
        self.congestion_control = prepared.congestion_control
        if prepared.agent_maps:
            self._agents = FlowAgents(self.topology, prepared.agent_maps)
        if self._agents is not None:
            self._agents.begin(episode.plan)

    def stop_traffic(self) -> None:
        """Cut every flow that still runs; `flow_records` then holds these too."""
        network = self._running
        network.cut_flows()
        network.actuators.release()

    def apply_rates(self, rates_bps: npt.NDArray[np.uint64]) -> int:
        """Limit each host; returns the CLOCK_MONOTONIC ns at which the kernel had acknowledged.

        Args:
            rates_bps: Rate of each host, shape (H,).

        Raises:
            BackendError: The emulator died.
        """
        network = self._running
        network.session.check_alive()
        acknowledged_ns = network.actuators.limit(rates_bps)
        network.telemetry.note_action(rates_bps, acknowledged_ns)
        return acknowledged_ns

    def apply_weights(self, weights: npt.NDArray[np.float64]) -> int:
        """Weigh the equal-cost ports of the switches; returns the CLOCK_MONOTONIC ns when in force.

        Args:
            weights: 0 or more, one for each port of each group with a choice, in the order of
                `dcgym.topologies.next_hop_groups`. Where a group's are all 0 they count as equal.

        Raises:
            ConfigError: The switches are Open vSwitch, whose select groups miss unequal weights
                (openvswitch/ovs-issues 180).
            BackendError: The emulator died.
        """
        check_in("switch", self.options.switch, ("ebpf",))
        network = self._running
        network.session.check_alive()
        return network.paths.apply(weights)

    def flow_states(self, count: int) -> npt.NDArray[np.void]:
        """Return the first flows of the plan, (1, F) of `AGENT_FLOW`.

        Args:
            count: Number of flows F.

        Raises:
            BackendError: No episode of dcgym_agent is running.
        """
        return self._steered.states(count)[None]

    def command_flows(self, commands: FlowCommands, lease_ns: int) -> npt.NDArray[np.int64]:
        """Give commands to the flows; returns when the kernel could read them, (1,).

        Args:
            commands: What the flows are to do, (1, F).
            lease_ns: How long all commands hold from now on.

        Raises:
            BackendError: No episode of dcgym_agent is running.
        """
        return np.array([self._steered.command(commands, lease_ns)])

    def advance(self, until_ns: int) -> int:
        """Sleep until a CLOCK_MONOTONIC time; returns the overrun in ns."""
        self._running.telemetry.announce_deadline(until_ns)
        overrun_ns = int(self._native.wait_until(until_ns))
        if self._audit is not None:
            self._audit.interval(overrun_ns)
            self._running.telemetry.note_deadline(until_ns, overrun_ns)
        return overrun_ns

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def snapshot(self) -> Snapshot:
        """Collect now and read the block.

        Raises:
            BackendError: The emulator died or its traffic generator is silent.
        """
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

    def finished(self) -> bool:
        """Tell whether every flow of the plan has ended."""
        return self._running.session.generator.finished

    def flow_records(self) -> npt.NDArray[np.void]:
        """Return the records of the flows that ended since the last reset."""
        return self._running.telemetry.flow_records()

    def application_records(self) -> list[Record]:
        """Return what became of each application since the last reset; none for a plan of flows.

        Each record has the fields of `AppPlan.rows`, ``outcome`` ("waiting", "running", "finished",
        "failed", "stopped" by its duration, "cut" by the end of the episode), ``exit_code`` (None
        while it runs, minus a signal's number), ``began_s``, ``ended_s`` and ``said``, the last
        line that it printed.
        """
        if not isinstance(self._plan, AppPlan):
            return []
        became = self._running.session.call(ReadApplications(), Records).records
        return [{**row, **record} for row, record in zip(self._plan.rows(), became, strict=True)]

    def process_records(self) -> list[Record]:
        """Return the processes that send the flows of the plan; none of the native generator.

        Each record has ``flow``, ``listens_at`` and ``connects_at``, names of hosts, and the
        command lines ``listener`` and ``connector``. Repetitions of a flow use the same.
        """
        if not self._has_tool:
            return []
        rows = self._running.session.call(ReadProcesses(), Records).records
        return [dict(row) for row in rows]

    def event_records(self) -> list[Record]:
        """Return what has happened to the network, and how long its routes took to recover.

        Each record has ``at_s``, ``action``, ``target``, ``late_us`` (behind its time) and
        ``applied_us`` (until the kernel had done it and the routes were in force). Where routes
        changed, it also has ``routes_changed`` and, all counted from the moment at which the
        interface began to go down or up, ``noticed_us`` (the kernel's report was read) and
        ``recovery_us`` (the last route was in force).

        Raises:
            BackendError: An event could not be made to happen.
        """
        return self._events.records(time.monotonic_ns())

    def fidelity(self) -> Fidelity:
        """Say how far the emulation can be believed.

        Raises:
            BackendError: No episode has run yet, or the emulator is gone.
        """
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

    @property
    def lab(self) -> NetworkLab:
        """The workbench of the running network: commands in hosts, pings, counters of drops.

        Raises:
            BackendError: It is not running.
        """
        return self._running.lab

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

    @property
    def _steered(self) -> FlowAgents:
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


def _watch_links(network: RunningNetwork, events: Sequence[Event]) -> LinkAudit:
    lowest_bps, highest_bps = rate_bounds_bps(network.topology, events)
    actuators = network.actuators
    bursts_bytes, frames_bytes = actuators.bursts_bytes(highest_bps), actuators.frames_bytes
    met_empty = network.telemetry.met_empty
    return LinkAudit(lowest_bps, highest_bps, bursts_bytes, frames_bytes, met_empty)
