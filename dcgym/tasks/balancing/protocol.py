"""The protocol of server pools: what may be decided about copies of one, and read of them.

Shapes: E copies, N servers, B front ends: each virtual address at each balancer, balancer by
balancer. Where there is one address a front end is a balancer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.errors import BackendError
from dcgym.monitors.balancer.reducers import REDUCERS
from dcgym.tasks.balancing.records import COMPLETED, NOBODY, OUTCOMES, UNDER_WAY

__all__ = [
    "NOTHING",
    "CompletionTimes",
    "HeldFlows",
    "PoolCommands",
    "PoolState",
    "PoolSummary",
    "PoolTruth",
    "PoolView",
]

Counts: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Measured: TypeAlias = Counts | Floats | Flags


@dataclass(frozen=True, slots=True)
class PoolCommands:
    """What may be decided about a pool; what is None stays as it is.

    Attributes:
        held_flows: Follows a reset: every new flow waits for `assignments` from now on, and so many
            arrive; 0 for no end. Time waits with them: `advance` ends in each copy where one waits,
            and else, where no other comes, with the end of the last one. The first that comes is
            the first thing that is seen: events count from there. A flow that finds no free entry
            of the flow table follows the hash, and does not wait.
        rules: Name of the rule by which each front end places new flows, B of them, or one for all.
        weights: Of the servers at each front end, above 0, (E, B, N); only their ratios count.
        eligible: Servers that take new flows, (E, N), at least one in each copy; all do after a
            reset. The others serve those that they have. What is drained, removed or not yet added
            by an event takes none either way. Flows to a virtual address of which no server takes
            any are lost.
        assignments: Number of the server for the flow that has waited longest in each copy, (E,);
            -1 for that of the balancer's rule. One that is not there, or does not answer the flow's
            address, loses the flow.
        sampled: Front ends whose samples are reduced from now on, in all copies and over resets:
            the others' may be 0 in what is read. All of them at first.
    """

    held_flows: int | None = None
    rules: str | Sequence[str] | None = None
    weights: npt.ArrayLike | None = None
    eligible: npt.ArrayLike | None = None
    assignments: npt.ArrayLike | None = None
    sampled: Sequence[int] | None = None


NOTHING = PoolCommands()
"""Leaves everything as it is; to be told the time."""


@dataclass(slots=True, eq=False)
class PoolView:
    """What balancers can know, of each of their virtual addresses.

    Attributes:
        ongoing: Flows that the front end tracks on the server (state CONN), (E, B, N).
        flows: Flows that it has seen enter that state since the reset, (E, B, N).
        completed: Those of them that it has seen leave it by their end, (E, B, N).
        packets: Packets towards the server since the reset, (E, B, N).
        untracked: Flows that found no free entry of the flow table, (E, B).
        duration_us: `REDUCERS` of the reservoir of flow durations: packet time minus the time of
            the SYN, at each packet in CONN, (E, B, N, 5); 0 without samples.
        completion_us: The same of completed flows' durations.
        interarrival_us: The same of the gaps between new flows, (E, B, 5).
        eligible: Servers that take new flows to the address, (E, B, N).
        balancer_up: Whether the balancer works, (E, B).
        weights: Those in force, the largest being 1, (E, B, N).
        probe_busy: Busy workers at the last poll that was answered, (E, B, N); 0 before it.
        probe_queue: Flows at the server then.
        probe_time_ns: When that was; -1 before it.
        probe_answered: Requests that the server had answered by then.
        probe_errors: Those of them with an error.
    """

    ongoing: Counts
    flows: Counts
    completed: Counts
    packets: Counts
    untracked: Counts
    duration_us: Floats
    completion_us: Floats
    interarrival_us: Floats
    eligible: Flags
    balancer_up: Flags
    weights: Floats
    probe_busy: Counts
    probe_queue: Counts
    probe_time_ns: Counts
    probe_answered: Counts
    probe_errors: Counts

    @classmethod
    def blank(cls, n_envs: int, n_frontends: int, n_servers: int) -> PoolView:
        """Return what balancers know before the first flow, where all servers take flows.

        Backends fill in what they know: what nobody measures stays at 0, polls unanswered.

        Args:
            n_envs: Number of copies E.
            n_frontends: Number of front ends B.
            n_servers: Number of servers N.
        """
        by_frontend, each = (n_envs, n_frontends), (n_envs, n_frontends, n_servers)
        counts = ("ongoing", "flows", "completed", "packets")
        probes = ("probe_busy", "probe_queue", "probe_answered", "probe_errors")
        return cls(
            **{name: np.zeros(each, np.int64) for name in (*counts, *probes)},
            untracked=np.zeros(by_frontend, np.int64),
            duration_us=np.zeros((*each, len(REDUCERS))),
            completion_us=np.zeros((*each, len(REDUCERS))),
            interarrival_us=np.zeros((*by_frontend, len(REDUCERS))),
            eligible=np.ones(each, np.bool_),
            balancer_up=np.ones(by_frontend, np.bool_),
            weights=np.ones(each),
            probe_time_ns=np.full(each, -1, np.int64),
        )


@dataclass(slots=True, eq=False)
class PoolTruth:
    """What nobody in the network knows: for oracles, rewards and tests.

    Attributes:
        queue: Flows at the server: waiting or in service, at whatever resource, (E, N).
        assigned: The same and those on their way to it.
        busy_workers: Processors at work, at most the server's workers, (E, N).
        remaining_ns: Work left at the server, all stages, over its speed, (E, N).
        capacity: CPU seconds a second that the server gives to flows when all its workers are busy,
            (E, N); 0 for a server that is not there.
        remaining_by_balancer_ns: The parts of `remaining_ns` that each front end placed, (E, B, N).
        ended: Flows that have completed since the reset, those of the warm-up too, (E,).
        ended_after_ns: Sum of their completion times, (E,).
        rejected: Flows that ended so, without those of the warm-up, (E,).
        pcc_violations: The same.
    """

    queue: Counts
    assigned: Counts
    busy_workers: Counts
    remaining_ns: Floats
    capacity: Floats
    remaining_by_balancer_ns: Floats
    ended: Counts
    ended_after_ns: Counts
    rejected: Counts
    pcc_violations: Counts


@dataclass(slots=True, eq=False)
class HeldFlows:
    """What is known where flows wait for their servers.

    Attributes:
        begun_ns: When the first one came, which the times of events count from, (E,); -1 before it.
        waits: Whether one waits now, (E,).
        demand_ns: Its work at speed 1, all stages, (E,); 0 where none waits.
        flow_time_ns: Integral over time of the flows under way, since the reset, (E,).
        under_way: Flows that have arrived and whose end is not known, (E,).
        failed: Flows that were rejected, reset or lost, (E,).
        waiting_ns: Work at each server that is not in service yet, at speed 1, (E, N).
        in_service_ns: Work in service over the server's full speed, (E, N).
    """

    begun_ns: Counts
    waits: Flags
    demand_ns: Counts
    flow_time_ns: Counts
    under_way: Counts
    failed: Counts
    waiting_ns: Counts
    in_service_ns: Floats


@dataclass(slots=True, eq=False)
class PoolState:
    """What may be read of a pool.

    Attributes:
        time_ns: When, on the clock of each copy, (E,).
        seen: What balancers can know.
        truth: What only servers and clients do.
        held: What is known where flows wait; None where none has to.
        shadow_ongoing: `PoolView.ongoing` of a pool that has met the same flows under another rule,
            (E, B, N); None where there is none.
    """

    time_ns: Counts
    seen: PoolView
    truth: PoolTruth
    held: HeldFlows | None = None
    shadow_ongoing: Counts | None = None


@dataclass(frozen=True, slots=True)
class CompletionTimes:
    """Completion times of an application's flows; percentiles are off by 1.6 % at most."""

    count: int
    mean_us: float
    std_us: float
    p50_us: float
    p90_us: float
    p95_us: float
    p99_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSummary:
    """Figures of a copy since its warm-up, which take the same memory however long it runs.

    Attributes:
        duration_s: Time since then.
        events: Events handled since the reset; None where that is not a simulation's.
        arrivals: Flows that arrived: the sum of completed, rejected, pcc_violations, lost and
            in_flight.
        completed: Of them, by how they ended (`OUTCOMES`).
        rejected: The same.
        pcc_violations: The same.
        lost: The same.
        untracked: Flows that found no free entry of a flow table.
        messages: Numbers of messages by name: probes and idle messages sent, reports on SYN-ACKs,
            answers in time, late and repeated, messages lost, and those whose receiver had gone
            (unanswered); None where nobody counts them.
        records_dropped: Finished flows that nobody took in time.
        in_flight: Flows that have not ended.
        applications: Completion times by application, of those that the backend sums up.
        server_flows: Flows placed on each server, (N,).
        server_completed: Flows served by it, (N,).
        queue_mean: Average over time of its flows, (N,).
        busy_mean: Average over time of its busy workers, (N,).
        jain_queue: Average over samples every 100 ms of Jain's index of flows per configured
            capacity.
        jain_remaining: The same of remaining work.
        overprovision_queue: Average over the same of the maximum over the mean.
        overprovision_remaining: The same of remaining work.

    Raises:
        BackendError: The arrivals are not that sum: the backend counts wrongly.
    """

    duration_s: float
    events: int | None = None
    arrivals: int
    completed: int
    rejected: int
    pcc_violations: int = 0
    lost: int = 0
    untracked: int = 0
    messages: Mapping[str, int] | None = None
    records_dropped: int = 0
    in_flight: int
    applications: Mapping[str, CompletionTimes]
    server_flows: Floats
    server_completed: Floats
    queue_mean: Floats
    busy_mean: Floats
    jain_queue: float = math.nan
    jain_remaining: float = math.nan
    overprovision_queue: float = math.nan
    overprovision_remaining: float = math.nan

    @classmethod
    def of_flows(
        cls, flows: npt.NDArray[np.void], n_servers: int, duration_s: float
    ) -> PoolSummary:
        """Return what the records of flows tell; averages over time are NaN.

        Args:
            flows: Records of all that arrived since the warm-up, of those under way too.
            n_servers: Number of servers N.
            duration_s: Time since then.
        """
        ends = np.bincount(flows["outcome"], minlength=UNDER_WAY + 1).tolist()
        completed = flows[flows["outcome"] == COMPLETED]
        placed, served = (
            np.bincount(each["server"], minlength=NOBODY + 1)[:n_servers].astype(np.float64)
            for each in (flows, completed)
        )
        return cls(
            duration_s=duration_s,
            arrivals=len(flows),
            **dict(zip((*OUTCOMES, "in_flight"), ends, strict=True)),
            applications={},
            server_flows=placed,
            server_completed=served,
            queue_mean=np.full(n_servers, math.nan),
            busy_mean=np.full(n_servers, math.nan),
        )

    def __post_init__(self) -> None:
        """Check that every flow that arrived ended in one way, or is under way."""
        counted = {name: getattr(self, name) for name in (*OUTCOMES, "in_flight")}
        total = sum(counted.values())
        if total != self.arrivals:
            parts = ", ".join(f"{name} {count}" for name, count in counted.items())
            raise BackendError(f"of {self.arrivals} flows that arrived, {total} remain: {parts}")
