"""The network that an environment drives: one protocol, chosen by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in
from dcgym.monitors.network.snapshot import Snapshot
from dcgym.tasks.network.events import Event
from dcgym.topologies import Topology
from dcgym.traffic import Plan

__all__ = ["BACKENDS", "Backend", "Snapshot", "make_backend"]

BACKENDS = ("emulation",)


@runtime_checkable
class Backend(Protocol):
    """A network that runs traffic, takes rate limits and path weights, and shows its counters.

    Times are CLOCK_MONOTONIC in ns. Any call may raise `BackendError` once the network is dead or
    silent; the next `reset` builds it anew.
    """

    name: str
    topology: Topology

    def start(self) -> None:
        """Build the network; does nothing when it runs already."""

    def reset(
        self,
        plan: Plan,
        *,
        congestion_control: dict[str, str],
        marking: bool,
        seed: int | None = None,
        events: Sequence[Event] = (),
    ) -> Snapshot:
        """Clear all traffic, queues, limits and events in place, start the plan, measure."""

    def apply_rates(self, rates_bps: npt.NDArray[np.uint64]) -> int:
        """Limit each host; returns the time at which every limit was acknowledged."""

    def apply_weights(self, weights: npt.NDArray[np.float64]) -> int:
        """Weigh the equal-cost ports of the switches; returns the time at which they were in force.

        Args:
            weights: 0 or more, one for each port of each group with a choice, in the order of
                `dcgym.topologies.next_hop_groups`. Where a group's are all 0 they count as equal.
        """

    def wait_until(self, deadline_ns: int) -> int:
        """Let the network run to the deadline; returns the overrun in ns."""

    def now_ns(self) -> int:
        """Return the time of the clock that snapshots are stamped with."""

    def snapshot(self) -> Snapshot:
        """Read one consistent state, and begin a new interval for the peak queues."""

    def stop_traffic(self) -> None:
        """Cut every flow that still runs; `flow_records` then holds these too."""

    def finished(self) -> bool:
        """Tell whether every flow of the plan has ended."""

    def flow_records(self) -> npt.NDArray[Any]:
        """Return the records of the flows that ended since the last reset."""

    def event_records(self) -> list[dict[str, Any]]:
        """Return a record of each event that has taken effect since the last reset."""

    def fidelity(self) -> dict[str, Any]:
        """Say how far the emulation can be believed: status ok, degraded or invalid, and why."""

    def close(self) -> None:
        """End everything that was started; a second call does nothing."""


def make_backend(name: str, topology: Topology, **options: Any) -> Backend:
    """Create a backend, which starts nothing yet.

    Args:
        name: One of `BACKENDS`.
        topology: The network to build.
        options: Options of the backend, such as ``switch="ovs"``; unknown ones raise.

    Raises:
        ConfigError: Unknown backend or option.
    """
    check_in("backend", name, BACKENDS)
    from dcgym.backends.emulation import EmulationBackend

    return EmulationBackend(topology, **options)
