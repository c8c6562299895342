"""The counters of a running network: ports, hosts, flow matrix, round trips, flow records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.wire.messages import NetworkBuilt
from dcgym.errors import BackendError
from dcgym.monitors import FlowMatrix, MetQueues, Snapshot, TelemetryRegion
from dcgym.native import require
from dcgym.topologies import Topology
from dcgym.traffic.generators.generator import GeneratorView, RecordStream

if TYPE_CHECKING:
    from dcgym.native._native import Collector

__all__ = ["NetworkTelemetry"]

BACKGROUND_PERIOD_NS = 100_000_000
RECORDS_PER_POLL = 1000

Rates = npt.NDArray[np.uint64]


class NetworkTelemetry:
    """Collects the counters into shared memory and reads them there.

    Args:
        topology: The network.
        built: Descriptors of the counters; not owned.
        generator: Counters and records of the traffic generator; not owned.
        has_flow_matrix: Whether snapshots hold the flow matrix.
        has_probes: Whether snapshots hold round trips.

    Attributes:
        region: The shared memory, which others may read too.
    """

    def __init__(
        self,
        topology: Topology,
        built: NetworkBuilt,
        generator: GeneratorView,
        has_flow_matrix: bool,
        has_probes: bool,
    ) -> None:
        n_ports, n_hosts = len(topology.switch_ports), len(topology.hosts)
        self._generator, self._has_probes = generator, has_probes
        self._records = RecordStream(generator)
        self._met_queues = MetQueues(built.port_counters, n_ports)
        self._flows: FlowMatrix | None = None
        if has_flow_matrix:
            self._flows = FlowMatrix(built.flow_matrix, n_ports, n_hosts)
        self.region = TelemetryRegion(n_ports, n_hosts)
        self._collector: Collector = require().Collector(
            telemetry_fd=self.region.fd,
            n_hosts=n_hosts,
            queue_program_fd=built.queue_program,
            queue_map_fd=built.queues,
            n_queues=built.n_queues,
            rx_slots=built.rx_slots,
            port_map_fd=built.port_counters,
            generator_fd=built.generator_memory,
        )

    def collect(self) -> Snapshot:
        """Collect now, read the block, and begin a new interval for the peak queues.

        Raises:
            BackendError: The counters cannot be read.
        """
        try:
            self._collector.collect()
        except OSError as error:
            raise BackendError(f"telemetry: {error}") from None
        return self.region.read()

    def look(self) -> Snapshot:
        """Collect now and read the block; the interval of the peak queues goes on."""
        self._collector.collect(False)
        return self.region.read()

    @property
    def collected_ns(self) -> int:
        """When the last collection was over."""
        return self.region.heartbeats_ns()[0]

    def complete(self, snapshot: Snapshot) -> Snapshot:
        """Add the flow matrix and the round trips to a snapshot, and take over flow records."""
        self._records.poll(RECORDS_PER_POLL)
        if self._flows is not None:
            snapshot = replace(snapshot, flow_matrix=self._flows.read())
        if self._has_probes:
            snapshot = replace(snapshot, probe_rtt_ns=self._generator.probe_rtts_ns())
        return snapshot

    def flow_records(self) -> npt.NDArray[np.void]:
        """Return the records of the flows that ended since the plan was started."""
        return self._records.records()

    @property
    def records_lost(self) -> int:
        """Number of flow records that were overwritten before they were read."""
        return self._records.lost

    def met_empty(self) -> npt.NDArray[np.uint64]:
        """Return how many packets have met an empty queue so far, by switch port."""
        return self._met_queues.empty()

    def backlog_bytes(self) -> int:
        """Return what waits in all queues."""
        return self._collector.total_backlog_bytes()

    def begin(self, rates_bps: Rates) -> None:
        """Count from zero, and show these limits of the hosts."""
        self._collector.rebase()
        if self._flows is not None:
            self._flows.rebase()
        self._collector.set_rates(rates_bps)

    def announce_deadline(self, deadline_ns: int) -> None:
        """Have the generator sample its hosts just before the end of an interval."""
        self._collector.announce_deadline(deadline_ns)

    def note_action(self, rates_bps: Rates, acknowledged_ns: int) -> None:
        """Show new limits of the hosts, and since when they are in force."""
        self._collector.set_rates(rates_bps)
        self._collector.note_action(acknowledged_ns)

    def note_deadline(self, deadline_ns: int, overrun_ns: int) -> None:
        """Show by how much the end of an interval was missed."""
        self._collector.note_deadline(deadline_ns, max(overrun_ns, 0))

    def run_in_background(self) -> None:
        """Collect from time to time even when nobody asks."""
        self._collector.run_every(BACKGROUND_PERIOD_NS)

    def close(self) -> None:
        """Release all mappings, before the descriptors that they came from."""
        self._collector.stop()
        del self._collector
        if self._flows is not None:
            self._flows.close()
        self._met_queues.close()
        self.region.close()
