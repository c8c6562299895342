"""The emulation backend: an emulator process, driven through netlink and shared memory."""

from __future__ import annotations

import math
import os
import resource
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.audit.fidelity import FidelityAudit
from dcgym.backends.emulation.audit.links import LinkAudit, rate_bounds_bps
from dcgym.backends.emulation.audit.machine_load import MachineLoad, pid_of
from dcgym.backends.emulation.audit.preflight import Probe, run_preflight
from dcgym.backends.emulation.emulator.congestion import NAMES
from dcgym.backends.emulation.paths import PathGroups
from dcgym.backends.emulation.process import EmulatorProcess, has_ended
from dcgym.backends.emulation.runs import record_network
from dcgym.config import check_in, check_int
from dcgym.errors import BackendError, ConfigError
from dcgym.monitors import FlowMatrix, MetQueues, Snapshot, TelemetryRegion
from dcgym.native import require
from dcgym.tasks.network.events import Event, EventLog, check_events
from dcgym.topologies import Topology
from dcgym.traffic import Plan
from dcgym.traffic.generators.generator import GeneratorView, RecordStream, plan_file
from dcgym.traffic.generators.tools import GENERATORS, require_generator
from dcgym.traffic.plans.applications import APPS, AppPlan
from dcgym.units import parse_duration

__all__ = ["SWITCHES", "EmulationBackend"]

SWITCHES = ("ebpf", "ovs")
_Result = TypeVar("_Result")

BUILD_DEADLINE_S = 120.0
QUIET_DEADLINE_S = 2.0
STALE_NS = 2_000_000_000
BACKGROUND_PERIOD_NS = 100_000_000
RECORDS_PER_POLL = 1000
HELD_RATE_BPS = 8_000
# The generator gets ready for the first flows meanwhile.
START_DELAY_NS = 10_000_000
PING = ("ping", "-n", "-q", "-c", "5", "-i", "0.005", "-W", "1")
# About a gigabyte of kernel memory.
MOST_FLOWS = 1 << 23


class EmulationBackend:
    """Real hosts, queues and TCP; see `dcgym.backends.base.Backend` for the calls.

    Args:
        topology: The network.
        switch: ``ebpf`` (default) or ``ovs``.
        flow_matrix: Count the bytes of every host at every switch port.
        probes: Ordered pairs of hosts whose round trips every snapshot holds.
        flow_table: Flows that the switches remember, all together, the oldest forgotten first: a
            flow keeps its path when weights change. 0: every packet follows the weights.
        flowlet_gap: Idle time after which a remembered flow may move; 0: never.
        preflight: Measure a few links before the first episode, which takes about a second.
        generator: What sends the flows: ``native`` (default), ``iperf3`` or ``goben``. A plan of
            applications has a generator of its own, ``apps``, and the network is built anew where
            plans of both kinds follow each other.

    Raises:
        ConfigError: An argument is none of the above, or a link has a delay.
    """

    name = "emulation"

    def __init__(
        self,
        topology: Topology,
        switch: str = "ebpf",
        flow_matrix: bool = False,
        probes: Sequence[tuple[str, str]] = (),
        flow_table: int = 0,
        flowlet_gap: str | int | float = 0,
        preflight: bool = True,
        generator: str = "native",
    ) -> None:
        self._process: EmulatorProcess | None = None
        self._lives: select.poll | None = None
        self._fds: list[int] = []
        self.topology = _check_delays(topology)
        self._switch = check_in("switch", switch, SWITCHES)
        self._probes = [list(pair) for pair in probes]
        self._has_flow_matrix = check_in("flow_matrix", flow_matrix, (True, False))
        self._flow_entries = check_int("flow_table", flow_table, 0, MOST_FLOWS)
        self._flowlet_gap_ns = parse_duration(flowlet_gap, "flowlet_gap")
        self._flows: FlowMatrix | None = None
        self._wants_preflight = check_in("preflight", preflight, (True, False))
        self._generator_name = check_in("generator", generator, (*GENERATORS, APPS))
        self._flow_generator = "native" if generator == APPS else generator
        if self._probes and generator != "native":
            raise ConfigError("probes", self._probes, f"none with the generator {generator}")
        self._preflight: dict[str, float] | None = None
        self._audit: FidelityAudit | None = None
        self._events = EventLog()
        self._plan: Plan | None = None
        self.congestion_control: dict[str, str] = {}

    def start(self) -> None:
        """Build the network; does nothing when it runs already.

        Raises:
            FeatureNotSupported: Not root, or something is not installed.
            BackendError: The build failed.
        """
        if self._process is not None:
            return
        if self._generator_name != APPS:
            require_generator(self._generator_name)
        self._native = require()
        self._process = EmulatorProcess()
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        _raise_fd_limit(len(self.topology.hosts))
        answer, self._fds = self._call(
            "build",
            deadline_s=BUILD_DEADLINE_S,
            topology=self.topology.to_dict(),
            switch=self._switch,
            flow_matrix=self._has_flow_matrix,
            probes=self._probes,
            flow_entries=self._flow_entries,
            generator=self._generator_name,
        )
        self._rtnl_fd, port_map_fd, flow_map_fd, *others = self._fds
        group_map_fd, control_map_fd, queue_program_fd, queue_map_fd, *others = others
        generator_fd, self._generator_pidfd, *host_fds = others
        self._lives = self._watch()
        n_ports, n_hosts = len(self.topology.switch_ports), len(self.topology.hosts)
        self._region = TelemetryRegion(n_ports, n_hosts)
        if self._has_flow_matrix:
            self._flows = FlowMatrix(flow_map_fd, n_ports, n_hosts)
        self._met_queues = MetQueues(port_map_fd, n_ports)
        self._generator = GeneratorView(generator_fd)
        self._records = RecordStream(self._generator)
        self._collector = self._native.Collector(
            telemetry_fd=self._region.fd,
            n_hosts=n_hosts,
            queue_program_fd=queue_program_fd,
            queue_map_fd=queue_map_fd,
            n_queues=answer["n_queues"],
            rx_slots=answer["rx_slots"],
            port_map_fd=port_map_fd,
            generator_fd=generator_fd,
        )
        self._link_rates = np.array([p.rate_bps for p in self.topology.host_ports], np.uint64)
        self._limiter = self._native.RateLimiter(
            rtnl_fds=host_fds,
            ifindexes=answer["host_ifindexes"],
            limit_bytes=answer["host_queue_bytes"],
            link_rates_bps=self._link_rates,
        )
        self._port_buckets = [
            self._native.TokenBucket(self._rtnl_fd, ifindex, port.rate_bps, port.queue_bytes)
            for ifindex, port in zip(
                answer["port_ifindexes"], self.topology.switch_ports, strict=True
            )
        ]
        self._host_buckets = [
            self._native.TokenBucket(fd, ifindex, port.rate_bps, answer["host_queue_bytes"])
            for fd, ifindex, port in zip(
                host_fds, answer["host_ifindexes"], self.topology.host_ports, strict=True
            )
        ]
        # The others are full of tokens again when the next episode begins.
        self._fills_slowly = np.array(
            [
                bucket.burst_bytes * 8e9 > START_DELAY_NS * bucket.rate_bps
                for bucket in [*self._port_buckets, *self._host_buckets]
            ]
        )
        self._paths = PathGroups(
            self.topology,
            group_map_fd,
            control_map_fd,
            answer["port_ifindexes"],
            self._flowlet_gap_ns,
        )
        self._generator_pid = pid_of(self._generator_pidfd)
        record_network(self.process.run_id, self.topology, self._region.fd)

    def _watch(self) -> select.poll:
        """Return what becomes ready when the emulator or its traffic generator ends."""
        lives = select.poll()
        lives.register(self.process.pidfd, select.POLLIN)
        lives.register(self._generator_pidfd, select.POLLIN)
        return lives

    def reset(
        self,
        plan: Plan,
        *,
        congestion_control: dict[str, str],
        marking: bool,
        seed: int | None = None,
        events: Sequence[Event] = (),
    ) -> Snapshot:
        """Clear everything in place, start the plan, return the state before its first packet.

        Args:
            plan: The traffic.
            congestion_control: Algorithm per host; a host not named gets cubic.
            marking: Whether ports with a threshold mark.
            seed: Unused: the kernel cannot be seeded, and the plan is already drawn.
            events: What happens to the network during the episode.
        """
        check_events(events, self._switch)
        for name in congestion_control.values():
            check_in("congestion_control", name, NAMES)
        plan.check(self.topology)
        wanted = self._generator_for(plan)
        if self._process is not None and (self._death() or wanted != self._generator_name):
            self.close()
        self._generator_name, self._plan = wanted, plan
        self.start()
        self._cut_flows()
        if self._wants_preflight and self._preflight is None:
            self._flush()
            self._limiter.apply(self._link_rates)
            self._measure_links()
            self._limiter.apply(np.ones_like(self._link_rates))
        self._prepare(plan, congestion_control, marking, events)
        self._events = EventLog(events, lambda: list(self._call("event_records")[0]["records"]))
        self._paths.reset()
        self._flush()
        self._limiter.apply(self._link_rates)
        self._collector.rebase()
        if self._flows is not None:
            self._flows.rebase()
        self._collector.set_rates(self._link_rates)
        self._audit = FidelityAudit(self._machine_load(), self._link_audit(events), self._preflight)
        first = self.snapshot()
        start_ns = time.monotonic_ns() + START_DELAY_NS
        self._call("start_traffic", start_ns=start_ns)
        self._events.begin(start_ns)
        self._collector.run_every(BACKGROUND_PERIOD_NS)
        return first

    def _generator_for(self, plan: Plan) -> str:
        if not isinstance(plan, AppPlan):
            return self._flow_generator
        if self._probes:
            raise ConfigError("probes", self._probes, "none with applications")
        plan.check_machine()
        return APPS

    def _prepare(
        self,
        plan: Plan,
        congestion_control: dict[str, str],
        marking: bool,
        events: Sequence[Event],
    ) -> None:
        names = [host.name for host in self.topology.hosts]
        fd = plan_file(plan, names)
        try:
            answer, _ = self._call(
                "prepare",
                fds=(fd,),
                n_flows=len(plan),
                congestion_control=dict.fromkeys(names, "cubic") | congestion_control,
                marking=marking,
                events=[event.to_dict() for event in events],
            )
        finally:
            os.close(fd)
        self.congestion_control = answer["congestion_control"]

    def stop_traffic(self) -> None:
        """Cut every flow that still runs; `flow_records` then holds these too."""
        self._cut_flows()
        self._limiter.apply(self._link_rates)

    def _cut_flows(self) -> None:
        """Cut every flow; drop what is under way and hold up what the hosts still have to send."""
        # Nothing moves any more: the ends of flows cost more where packets do.
        self._limiter.apply(np.ones_like(self._link_rates))
        self._drop_waiting(len(self._port_buckets))
        self._call("stop_traffic")

    def _measure_links(self) -> None:
        """Compare a few links of the idle network with their configuration."""
        probe = Probe(
            look=self._look,
            burst=lambda sources, target, datagrams: self._burst(list(sources), target, datagrams),
            hold=self._hold,
            ping=lambda source, target: self.execute(source, *PING, self.topology.ip(target)),
            flush=self._flush,
        )
        self._call("set_marking", enabled=True)
        self._preflight = run_preflight(self.topology, probe)

    def _hold(self, is_held: bool) -> None:
        held = np.full_like(self._link_rates, HELD_RATE_BPS)
        self._limiter.apply(held if is_held else self._link_rates)

    def _look(self) -> tuple[Snapshot, int]:
        self._collector.collect(False)
        return self._region.read(), self._region.heartbeats_ns()[0]

    def _burst(self, sources: list[str], target: str, datagrams: int) -> None:
        self._call("burst", sources=sources, target=target, datagrams=datagrams)

    def _machine_load(self) -> MachineLoad:
        return MachineLoad.read(time.monotonic_ns(), self._generator_pid)

    def _link_audit(self, events: Sequence[Event]) -> LinkAudit:
        lowest_bps, highest_bps = rate_bounds_bps(self.topology, events)
        bursts_bytes = [self._native.burst_for(rate_bps) for rate_bps in highest_bps]
        return LinkAudit(lowest_bps, highest_bps, bursts_bytes, self._met_queues.empty)

    def _flush(self) -> None:
        """Empty every queue, and wait until no packet is left under way."""
        deadline = time.monotonic() + QUIET_DEADLINE_S
        while True:
            self._drop_waiting(len(self._port_buckets) + len(self._host_buckets))
            # A packet that was between two queues has found one by then, or its receiver.
            time.sleep(0.001)
            if not self._collector.total_backlog_bytes():
                break
            if time.monotonic() > deadline:
                raise BackendError("queues did not empty after the traffic was stopped")

    def _drop_waiting(self, count: int) -> None:
        """Drop what waits in the first queues, those of the ports before those of the hosts."""
        now, _ = self._look()
        backlog = np.concatenate((now.ports["backlog_bytes"], now.hosts["backlog_bytes"]))
        buckets = [*self._port_buckets, *self._host_buckets]
        waiting = np.flatnonzero((backlog > 0) | self._fills_slowly)
        self._native.flush_buckets([buckets[index] for index in waiting if index < count])

    def apply_rates(self, rates_bps: npt.NDArray[np.uint64]) -> int:
        """Limit each host; returns the CLOCK_MONOTONIC ns at which the kernel had acknowledged.

        Only limits that differ are sent: a token bucket is filled by each change (sch_tbf.c), so
        that a changed limit may pass up to one burst more than its rate.
        """
        self._check_alive()
        acknowledged_ns = int(self._limiter.apply(rates_bps))
        self._collector.set_rates(rates_bps)
        self._collector.note_action(acknowledged_ns)
        return acknowledged_ns

    def apply_weights(self, weights: npt.NDArray[np.float64]) -> int:
        """Weigh the equal-cost ports of the switches; returns the CLOCK_MONOTONIC ns when in force.

        Args:
            weights: 0 or more, one for each port of each group with a choice, in the order of
                `dcgym.topologies.next_hop_groups`. Where a group's are all 0 they count as equal.

        Raises:
            ConfigError: The switches are Open vSwitch, whose select groups miss unequal weights
                (openvswitch/ovs-issues 180).
        """
        check_in("switch", self._switch, ("ebpf",))
        self._check_alive()
        return self._paths.apply(weights)

    def wait_until(self, deadline_ns: int) -> int:
        """Sleep until the deadline; returns the overrun in ns."""
        overrun_ns = int(self._native.wait_until(deadline_ns))
        if self._audit is not None:
            self._audit.interval(overrun_ns)
            self._collector.note_deadline(deadline_ns, max(overrun_ns, 0))
        return overrun_ns

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def snapshot(self) -> Snapshot:
        """Collect now and read the block.

        Raises:
            BackendError: The emulator died or its traffic generator is silent.
        """
        self._check_alive()
        try:
            self._collector.collect()
        except OSError as error:
            raise BackendError(f"telemetry: {error}") from None
        snapshot = self._region.read()
        silent_ns = snapshot.time_ns - self._region.source_ns
        if silent_ns > STALE_NS:
            self.close()
            raise BackendError(f"the traffic generator was silent for {silent_ns / 1e9:.1f} s")
        if self._audit is not None:
            self._audit.generator_silence(silent_ns)
            self._audit.links.look(snapshot, self._region.heartbeats_ns()[0])
        self._records.poll(RECORDS_PER_POLL)
        if self._flows is not None:
            snapshot = replace(snapshot, flow_matrix=self._flows.read())
        if self._probes:
            snapshot = replace(snapshot, probe_rtt_ns=self._generator.probe_rtts_ns())
        return snapshot

    def finished(self) -> bool:
        """Tell whether every flow of the plan has ended."""
        return bool(self._generator.finished)

    def flow_records(self) -> npt.NDArray[Any]:
        """Return the records of the flows that ended since the last reset."""
        return self._records.records()

    def app_records(self) -> list[dict[str, Any]]:
        """Return what became of each application since the last reset; none for a plan of flows.

        Each record has the fields of `AppPlan.rows`, ``outcome`` ("waiting", "running", "finished",
        "failed", "stopped" by its duration, "cut" by the end of the episode), ``exit_code`` (None
        while it runs, minus a signal's number), ``began_s``, ``ended_s`` and ``said``, the last
        line that it printed.
        """
        if not isinstance(self._plan, AppPlan):
            return []
        became = self._call("app_records")[0]["records"]
        return [row | record for row, record in zip(self._plan.rows(), became, strict=True)]

    def event_records(self) -> list[dict[str, Any]]:
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

    def dead_ports(self) -> list[str]:
        """Return the switch ports that the routes avoid now, by name."""
        return list(self._call("dead_ports")[0]["ports"])

    def fidelity(self) -> dict[str, Any]:
        """Say how far the emulation can be believed."""
        if self._audit is None:
            raise BackendError("no episode has run yet: call reset first")
        self._audit.starts(*self._generator.starts())
        records = self.flow_records()
        self._audit.records_lost(self._records.lost)
        return self._audit.verdict(self._machine_load(), records)

    def drops(self) -> dict[str, int]:
        """Return what the fabric refused to forward, by reason."""
        return dict(self._call("drops")[0]["drops"])

    def ping_matrix(self) -> list[tuple[str, str]]:
        """Ping between all ordered pairs of hosts; returns those without an answer."""
        lost = self._call("ping_matrix", deadline_s=BUILD_DEADLINE_S)[0]["lost"]
        return [(source, target) for source, target in lost]

    def execute(self, host: str, *argv: str, timeout_s: float = 10.0) -> str:
        """Run a command in a host's namespaces and return its output."""
        answer, _ = self._call(
            "execute", timeout_s + 5, host=host, argv=list(argv), timeout_s=timeout_s
        )
        return str(answer["output"])

    @property
    def process(self) -> EmulatorProcess:
        """The emulator's process.

        Raises:
            BackendError: It is not running.
        """
        if self._process is None:
            raise BackendError("the emulator is not running; call reset first")
        return self._process

    @property
    def generator(self) -> GeneratorView:
        """The counters and records of the traffic generator."""
        return self._generator

    @property
    def generator_pidfd(self) -> int:
        """Descriptor of the traffic generator's process, owned by the backend."""
        return self._generator_pidfd

    def _call(
        self, command: str, deadline_s: float = 10.0, fds: Sequence[int] = (), **arguments: Any
    ) -> tuple[dict[str, Any], list[int]]:
        return self._guarded(lambda: self.process.call(command, deadline_s, fds, **arguments))

    def _check_alive(self) -> None:
        if death := self._death():
            self.close()
            raise BackendError(f"{death}; the next reset builds it anew")

    def _death(self) -> str:
        """Say what of the emulator has died, if anything."""
        # One call for all that is watched, since every snapshot and every action begins here.
        if self._lives is not None and not self._lives.poll(0):
            return ""
        if not self.process.alive():
            return "the emulator died"
        if has_ended(self._generator_pidfd):
            return "the emulator's traffic generator died"
        return ""

    def _guarded(self, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except BackendError:
            if self._process is not None and not self._process.alive():
                self.close()
            raise

    def close(self) -> None:
        """End the emulator and release every descriptor; a second call does nothing."""
        if self._process is None:
            return
        process, self._process, self._lives = self._process, None, None
        self._preflight, self._audit = None, None
        try:
            if self._flows is not None:
                self._flows.close()
                self._flows = None
            if hasattr(self, "_collector"):
                self._collector.stop()
                # The mappings go with the object, before the descriptors they came from.
                del self._collector, self._limiter, self._port_buckets, self._host_buckets
            if hasattr(self, "_paths"):
                del self._paths
            for owner in ("_met_queues", "_region", "_generator"):
                if hasattr(self, owner):
                    getattr(self, owner).close()
                    delattr(self, owner)
        finally:
            for fd in self._fds:
                os.close(fd)
            self._fds = []
            process.close()

    def __del__(self) -> None:
        self.close()


def _check_delays(topology: Topology) -> Topology:
    """Refuse links with a delay: the token buckets and BPF programs of a port hold nothing back."""
    for link in topology.links:
        if link.delay_ns:
            field = f"delay_ns of link {link.a}-{link.b}"
            raise ConfigError(field, link.delay_ns, "0 in the emulation, whose links delay nothing")
    return topology


def _raise_fd_limit(hosts: int) -> None:
    """Allow this process one descriptor a host and some more, within its own hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft + hosts if soft != resource.RLIM_INFINITY else soft
    if soft < wanted <= (hard if hard != resource.RLIM_INFINITY else math.inf) and hosts > 256:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
