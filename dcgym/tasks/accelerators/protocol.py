"""The protocol of pools of servers with devices: what may be decided, and what may be read.

Shapes: E copies, N servers, D devices of the server that has most of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["NOTHING", "DeviceCommands", "DeviceEpisode", "DeviceState"]

Counts: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DeviceEpisode:
    """What a copy runs.

    Attributes:
        seed: Decides its requests, from 0 to 2**64 - 1.
        rate_per_s: Requests a second; None for the pool's.
    """

    seed: int
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceCommands:
    """What may be decided about such a pool; what is None stays as it is.

    Attributes:
        device_rule: Name in `DEVICE_RULES`: which device of its server a new request gets.
        server_rule: One of `SERVER_RULES`: which server.
        device_weights: What `wrr` and `dynamic-wrr` use: 0 or more, (E, N, D) or what broadcasts to
            that; one device of each server at least has a weight above 0.
    """

    device_rule: str | None = None
    server_rule: str | None = None
    device_weights: npt.ArrayLike | None = None


NOTHING = DeviceCommands()
"""Leaves everything as it is; to be told the time."""


@dataclass(slots=True, eq=False)
class DeviceState:
    """What has happened since the last look, and what is there now.

    Attributes:
        time_ns: When, on the clock of each copy, (E,).
        arrivals: Requests that came, (E,).
        completed: Requests that were answered, (E,).
        dropped: Requests that a full queue dropped, (E,).
        lost: Requests that a device lost that has failed, or a pool without devices, (E,).
        reports: Reports that were sent, (E,).
        reports_lost: Reports that were lost, (E,).
        inherited: Requests that began in another one's entry of the connection table, (E,).
        pcc_violations: Connections whose later packets went to another device, (E,).
        latency_mean_ns: Of the requests that were answered, from the balancer back to it, (E,);
            NaN where none was.
        latency_p50_ns: The same.
        latency_p99_ns: The same.
        utilisation: Share of the workers' time in use, 0 to 1, (E, N, D).
        offered: Work that came over what the workers can do, 0 or more, (E, N, D).
        share: Weights of each server's devices, adding up to 1, (E, N, D).
        queue: Requests at the device, (E, N, D).
        chosen: Requests that were sent there, (E, N, D).
        device_dropped: Those of them that were dropped, (E, N, D).
        reported_load: Per cent, as the balancer knows it, (E, N, D).
        reported_busy: 1 where the balancer takes the device for busy, (E, N, D).
        report_age_ns: Age of the last report, (E, N, D); -1 where none has come.
        present: Whether the balancer sends requests there, (E, N, D).
    """

    time_ns: Counts
    arrivals: Counts
    completed: Counts
    dropped: Counts
    lost: Counts
    reports: Counts
    reports_lost: Counts
    inherited: Counts
    pcc_violations: Counts
    latency_mean_ns: Floats
    latency_p50_ns: Floats
    latency_p99_ns: Floats
    utilisation: Floats
    offered: Floats
    share: Floats
    queue: Counts
    chosen: Counts
    device_dropped: Counts
    reported_load: Counts
    reported_busy: Counts
    report_age_ns: Counts
    present: npt.NDArray[np.bool_]

    @property
    def ended(self) -> Counts:
        """Requests that have come to an end, (E,)."""
        return self.completed + self.dropped + self.lost

    @property
    def failed_share(self) -> Floats:
        """Requests that were dropped or lost over those that came, (E,)."""
        share: Floats = (self.dropped + self.lost) / np.maximum(self.arrivals, 1)
        return share
