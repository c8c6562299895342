"""A network that has been built: its session, and what works through its descriptors."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass

from dcgym.backends.emulation.audit.links import LinkAudit, rate_bounds_bps
from dcgym.backends.emulation.audit.preflight import Probe, run_preflight
from dcgym.backends.emulation.network.actuators import LinkActuators
from dcgym.backends.emulation.network.lab import NetworkLab
from dcgym.backends.emulation.network.paths import PathGroups
from dcgym.backends.emulation.network.telemetry import NetworkTelemetry
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.emulation.session.runs import record_network
from dcgym.backends.emulation.session.session import EmulatorSession
from dcgym.backends.emulation.wire.messages import (
    BuildNetwork,
    Done,
    Flushed,
    FlushLinks,
    NetworkBuilt,
    ReadTapDrops,
    StopTraffic,
    TapDrops,
)
from dcgym.backends.needs import NetworkNeeds
from dcgym.errors import BackendError
from dcgym.monitors import Snapshot
from dcgym.monitors.network.link_delays import LinkDelayView
from dcgym.tasks.network.events import Event
from dcgym.topologies import Topology

__all__ = ["RunningNetwork", "build_network"]

BUILD_DEADLINE_S = 120.0
QUIET_DEADLINE_S = 2.0
PING = ("ping", "-n", "-q", "-i", "0.005")
# Up to so many hosts the usual limit of descriptors is enough.
FEW_HOSTS = 256


@dataclass(frozen=True)
class RunningNetwork:
    """The parts of a built network; they are of use until its session is closed.

    Attributes:
        topology: The network.
        generator: Kind of its traffic generator.
        session: The emulator.
        telemetry: Its counters.
        actuators: Limits and queues.
        paths: Weights of paths.
        lab: Its workbench.
        delays: What the relay counts, where links delay.
    """

    topology: Topology
    generator: str
    session: EmulatorSession
    telemetry: NetworkTelemetry
    actuators: LinkActuators
    paths: PathGroups
    lab: NetworkLab
    delays: LinkDelayView | None = None

    def cut_flows(self) -> None:
        """Cut every flow; drop what is under way and hold up what the hosts still have to send."""
        # Nothing moves any more: the ends of flows cost more where packets do.
        self.actuators.block()
        self.actuators.drop_waiting(self.telemetry.look(), at_hosts=False)
        self.session.call(StopTraffic(), Done)

    def flush(self) -> None:
        """Empty every queue, and wait until no packet is left under way.

        Raises:
            BackendError: Packets kept coming.
        """
        deadline = time.monotonic() + QUIET_DEADLINE_S
        while True:
            self.actuators.drop_waiting(self.telemetry.look(), at_hosts=True)
            # A packet that was between two queues has found one by then, or its receiver.
            time.sleep(0.001)
            if not self._flush_links() and not self.telemetry.backlog_bytes():
                break
            if time.monotonic() > deadline:
                raise BackendError("queues did not empty after the traffic was stopped")

    def _flush_links(self) -> int:
        if self.delays is None:
            return 0
        return self.session.call(FlushLinks(), Flushed).packets

    def check_relay(self) -> None:
        """End the session if links delay, and their relay hangs.

        Raises:
            BackendError: It does.
        """
        if (delays := self.delays) is not None:
            self.session.check_heartbeat(lambda: delays.heartbeat_ns, "relay of link delay")

    def delay_figures(self) -> dict[str, float]:
        """Return how late packets left the links, for the fidelity; nothing without delays."""
        delays = self.delays
        if delays is None:
            return {}
        return {
            "delay_late_ms_p99": delays.late_quantile_ns(0.99) / 1e6,
            "delay_late_ms_max": delays.late_max_ns / 1e6,
            "delay_overflow": delays.overflow + self.session.call(ReadTapDrops(), TapDrops).packets,
        }

    def measure_links(self) -> dict[str, float]:
        """Compare a few links of the idle network with their configuration."""
        self.flush()
        self.actuators.release()
        self.lab.set_marking(True)
        probe = Probe(
            look=self._look,
            burst=self.lab.burst,
            hold=self.actuators.hold,
            ping=self._ping,
            flush=self.flush,
        )
        figures = run_preflight(self.topology, probe)
        self.actuators.block()
        return figures

    def watch_links(self, events: Sequence[Event]) -> LinkAudit:
        """Return what compares links with their rates in an episode.

        Args:
            events: What happens to them.
        """
        lowest_bps, highest_bps = rate_bounds_bps(self.topology, events)
        bursts_bytes = self.actuators.bursts_bytes(highest_bps)
        met_empty, frames_bytes = self.telemetry.met_empty, self.actuators.frames_bytes
        return LinkAudit(lowest_bps, highest_bps, bursts_bytes, frames_bytes, met_empty)

    def _look(self) -> tuple[Snapshot, int]:
        return self.telemetry.look(), self.telemetry.collected_ns

    def _ping(self, source: str, target: str, count: int, wait_s: float) -> str:
        words = ("-c", str(count), "-W", f"{wait_s:.3f}", self.topology.ip(target))
        return self.lab.execute(source, *PING, *words)


def build_network(needs: NetworkNeeds, options: NetworkOptions, generator: str) -> RunningNetwork:
    """Start an emulator and let it build a network.

    Args:
        needs: The network, how paths are chosen, and what is measured.
        options: What forwards packets, and what processes of hosts may do.
        generator: What sends the traffic, that of applications included.

    Raises:
        FeatureNotSupported: Not root, or something is not installed.
        BackendError: The build failed.
    """
    _raise_descriptor_limit(len(needs.topology.hosts))
    session = EmulatorSession()
    try:
        return _attach(session, needs, options, generator)
    except BaseException:
        session.close()
        raise


def _attach(
    session: EmulatorSession, needs: NetworkNeeds, options: NetworkOptions, generator: str
) -> RunningNetwork:
    topology, paths = needs.topology, needs.paths
    request = BuildNetwork(
        topology=topology.to_dict(),
        switch=options.switch,
        has_flow_matrix=needs.flow_matrix,
        probes=needs.probes,
        path_rule=paths.rule.switch,
        relabelling=paths.rule.sender,
        flow_entries=paths.flow_entries,
        generator=generator,
        host_access=options.host_access,
    )
    built = session.call(request, NetworkBuilt, BUILD_DEADLINE_S)
    session.follow_generator(built.generator_memory, built.generator_process)
    telemetry = NetworkTelemetry(
        topology, built, session.generator, needs.flow_matrix, bool(needs.probes)
    )
    session.at_end(telemetry.close)
    actuators = LinkActuators(topology, built)
    session.at_end(actuators.close)
    groups = PathGroups(
        topology,
        built.groups,
        built.fabric_control,
        built.port_ifindexes,
        paths.flowlet_gap_ns,
    )
    session.at_end(groups.close)
    delays = _follow_relay(session, built)
    record_network(session.process.run_id, topology, telemetry.region.fd)
    return RunningNetwork(
        topology, generator, session, telemetry, actuators, groups, NetworkLab(session), delays
    )


def _follow_relay(session: EmulatorSession, built: NetworkBuilt) -> LinkDelayView | None:
    if not built.relay:
        return None
    memory, process = built.relay
    session.watch(process, "relay of link delay")
    delays = LinkDelayView(memory)
    session.at_end(delays.close)
    return delays


def _raise_descriptor_limit(hosts: int) -> None:
    """Allow this process one descriptor a host and some more, within its own hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft + hosts if soft != resource.RLIM_INFINITY else soft
    highest = hard if hard != resource.RLIM_INFINITY else math.inf
    if soft < wanted <= highest and hosts > FEW_HOSTS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
