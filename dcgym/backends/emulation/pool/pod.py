"""The environment's side of an emulated pod: its session, and the memory shared with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.features import PoolFeatures, PoolWriter
from dcgym.backends.emulation.session.session import EmulatorSession
from dcgym.backends.emulation.wire.message import Descriptor, Message
from dcgym.backends.emulation.wire.messages import (
    BeginPod,
    BuildPod,
    Done,
    PodBuilt,
    StartTraffic,
)
from dcgym.native import require
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.topologies import Topology
from dcgym.traffic.http import REQUEST_DTYPE, RequestKind, RequestPlan, RequestResults, ServerRows
from dcgym.traffic.http.programs import ServerProgram

__all__ = ["RunningPod"]

BUILD_DEADLINE_S = 120.0


class RunningPod:
    """One emulated pod, of use until its session is closed.

    Args:
        topology: Made by `dcgym.topologies.builders.pod` for the scenario.
        scenario: What runs in it.
        options: How its balancers work.
        program: What serves; None for the generator's servers.

    Attributes:
        session: The emulator.
        writers: What each front end is told.
        features: What the front ends measured.
        rows: The true states of the servers.
        targets: Address and port of each VIP, in each family; a VIP's lie together.

    Raises:
        FeatureNotSupported: Not root, or something is not installed.
        BackendError: The build failed.
    """

    udp_timeout_ns = 10 * 10**9
    """After which a request over UDP, or its answer, counts as lost.

    A resolver gives up then: two attempts of 5 s (resolv.conf(5), RES_TIMEOUT and RES_DFLRETRY).
    """

    def __init__(
        self,
        topology: Topology,
        scenario: Scenario,
        options: PoolOptions,
        program: ServerProgram | None = None,
    ) -> None:
        self._topology, self._scenario = topology, scenario
        self._options, self._program = options, program
        self.session = EmulatorSession()
        try:
            # Not any memory: the servers' BPF programs read it too.
            rows_fd = self.session.own(require().create_load_map(scenario.n_servers))
            self._attach(rows_fd, self._build(rows_fd))
        except BaseException:
            self.session.close()
            raise

    def _build(self, rows_fd: int) -> PodBuilt:
        request = BuildPod(
            topology=self._topology.to_dict(),
            scenario=self._scenario.to_dict(),
            server_rows=Descriptor(rows_fd),
            consistency=self._options.consistency,
            hook=self._options.hook,
            program={} if self._program is None else self._program.to_dict(),
        )
        return self.session.call(request, PodBuilt, BUILD_DEADLINE_S)

    def _configured(self) -> npt.NDArray[np.float64]:
        """Return the weight of each of the balancers' servers as its operator sees it."""
        groups = self._scenario.server_groups
        return np.array([group.configured_weight for group in groups])

    def _attach(self, rows_fd: int, built: PodBuilt) -> None:
        session, n_servers = self.session, self._scenario.n_servers
        session.follow_generator(built.generator_memory, built.generator_process)
        self.targets, self._counters = built.targets, built.counters
        n_vips, configured = len(self._scenario.pool.vips), self._configured()
        pools = [require().BalancerPools(fd, n_vips) for fd in built.regions]
        self.writers = [PoolWriter(own, vip, configured) for own in pools for vip in range(n_vips)]
        session.at_end(self.writers.clear)
        self.features = PoolFeatures(self._scenario, built.regions)
        session.at_end(self.features.close)
        self.rows = ServerRows(rows_fd, n_servers)
        session.at_end(self.rows.close)

    def load(self, drawn: npt.NDArray[np.void], seed: int) -> RequestResults:
        """End the traffic, make everything as new, and load the flows of an episode.

        Args:
            drawn: The flows (`draw_arrivals`); the clients take turns.
            seed: The seed that they were drawn with.

        Returns:
            The memory that shows what becomes of them; the caller closes it.
        """
        clients = [node.name for node in self._topology.hosts if node.role == "client"]
        plan = _request_plan(
            self._scenario, drawn, seed, clients, self.targets, self.udp_timeout_ns
        )
        results = RequestResults(plan, [host.name for host in self._topology.hosts])
        try:
            self.session.call(BeginPod(results.request, Descriptor(results.fd)), Done)
        except BaseException:
            results.close()
            raise
        return results

    def start(self, start_ns: int) -> None:
        """Start the loaded flows; time 0 is start_ns (CLOCK_MONOTONIC)."""
        self.session.call(StartTraffic(start_ns), Done)

    def begin_pools(self, eligible: npt.NDArray[np.bool_]) -> None:
        """Start all front ends anew: rule ``weighted``, equal weights.

        Args:
            eligible: The servers that take new flows to each VIP, (V, N).
        """
        for number, writer in enumerate(self.writers):
            writer.begin(eligible[number % len(eligible)])

    def set_eligible(self, eligible: npt.NDArray[np.bool_]) -> None:
        """Say which servers take new flows, to all front ends.

        Args:
            eligible: Those of each VIP, (V, N).
        """
        for number, writer in enumerate(self.writers):
            writer.set_eligible(eligible[number % len(eligible)])

    def order(self, request: Message) -> None:
        """Send a request that is answered by `Done`."""
        self.session.call(request, Done)

    @property
    def n_balancers(self) -> int:
        """Number of balancers."""
        return len(self._counters)

    def rules_at(self, balancer: int) -> set[str]:
        """Return the names of the rules in force at a balancer's front ends."""
        n_vips = len(self.writers) // self.n_balancers
        return {one.rule for one in self.writers[balancer * n_vips : (balancer + 1) * n_vips]}

    def counters(self, balancer: int) -> dict[str, int]:
        """Return the counters of a balancer (`Balancer.counters` of the native module)."""
        found: dict[str, int] = require().balancer_counters(self._counters[balancer])
        return found


def _request_plan(
    scenario: Scenario,
    drawn: npt.NDArray[np.void],
    seed: int,
    clients: Sequence[str],
    targets: Sequence[tuple[str, int]],
    udp_timeout_ns: int,
) -> RequestPlan:
    applications = scenario.applications
    sizes = np.array([app.response_bytes for app in applications])
    requests = np.zeros(len(drawn), REQUEST_DTYPE)
    requests["start_ns"] = drawn["arrival_ns"]
    requests["client"] = np.arange(len(drawn)) % len(clients)
    # Each client asks all families in turn.
    n_families = len(scenario.data_plane.families)
    family = np.arange(len(drawn)) // len(clients) % n_families
    vip = np.array(scenario.vips_asked)[drawn["application"]]
    requests["target"] = vip * n_families + family
    requests["application"] = drawn["application"]
    requests["bytes"] = sizes[drawn["application"]]
    kinds = [RequestKind(app.name, tuple(s.resource for s in app.stages)) for app in applications]
    # The seeds of plans have 63 bits, those of the twin 64.
    transport = scenario.data_plane.transport
    return RequestPlan(
        *(scenario.name, seed >> 1, clients, list(targets), kinds, requests, drawn["demand_ns"]),
        # What is lost over UDP nobody repeats.
        timeout_ns=udp_timeout_ns if transport == "udp" else 0,
        transport=transport,
    )
