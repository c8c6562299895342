"""What happened at the stations since the last look, as a `DeviceState`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.devices.pod import DevicePod
from dcgym.backends.emulation.devices.requests import DeviceRequests
from dcgym.backends.emulation.devices.stations import Stations
from dcgym.tasks.accelerators.protocol import DeviceState

__all__ = ["DeviceCounts"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Look:
    """Counters at one moment; those of devices have a row a server and a column a device.

    Attributes:
        time_ns: CLOCK_MONOTONIC.
        busy_ns: Workers in use, summed over the time.
        rejected: Requests that found the queue full.
        chosen: Requests that the balancer sent there.
        sent: Reports.
        lost: Reports that were lost.
        pcc_violations: Connections that have lost their device.
    """

    time_ns: int
    busy_ns: FloatArray
    rejected: FloatArray
    chosen: FloatArray
    sent: int
    lost: int
    pcc_violations: int


class DeviceCounts:
    """Differences of counters, of one interval after the other.

    Args:
        stations: The stations.
    """

    def __init__(self, stations: Stations) -> None:
        pool = stations.pool
        self._shape = (pool.n_servers, pool.n_devices)
        servers, devices = zip(*stations.homes, strict=True)
        self._at = np.array(servers), np.array(devices)
        self._workers = self._spread(np.array([one.workers for one in stations.devices]))
        service_ns = [pool.mean_service_ns(device) for device in stations.devices]
        self._service_ns = self._spread(np.array(service_ns))
        self._exists = self._spread(np.ones(len(stations.homes))) > 0

    def _spread(self, values: npt.ArrayLike) -> FloatArray:
        """Return numbers of stations by server and device, 0 where there is none."""
        found = np.zeros(self._shape)
        found[self._at] = values
        return found

    def begin(self, pod: DevicePod) -> None:
        """Count from now on.

        Args:
            pod: The running pod.
        """
        self._before = self._look(pod)

    def _look(self, pod: DevicePod) -> _Look:
        rows, now_ns = pod.rows.read(), time.monotonic_ns()
        # Since a row was written its workers have done what they did then.
        since_ns = np.where(rows["heartbeat_ns"] > 0, now_ns - rows["heartbeat_ns"].astype("i8"), 0)
        busy_ns = rows["busy_ns"] + rows["workers_busy"] * np.maximum(since_ns, 0)
        n, d = self._shape
        chosen = pod.block.connections()[:n, :d].astype(np.float64)
        sent, lost = pod.costs.counts()
        moved = pod.counters(0)["pcc_violations"]
        rejected = self._spread(rows["rejected"])
        return _Look(now_ns, self._spread(busy_ns), rejected, chosen, sent, lost, moved)

    def read(
        self, pod: DevicePod, requests: DeviceRequests, start_ns: int, speed: FloatArray
    ) -> DeviceState:
        """Return what has happened since the last call, and begin a new interval.

        Args:
            pod: The running pod.
            requests: Those of the episode.
            start_ns: CLOCK_MONOTONIC of its beginning; 0 before it.
            speed: What each device runs at, times its first speed.
        """
        before, now = self._before, self._look(pod)
        self._before = now
        passed_ns = max(now.time_ns - before.time_ns, 1)
        whole_ns = np.maximum(self._workers * passed_ns, 1)
        chosen = now.chosen - before.chosen
        work_ns = chosen * self._service_ns / np.where(speed > 0, speed, 1)
        elapsed_ns = max(now.time_ns - start_ns, 0) if start_ns else 0
        found: dict[str, npt.NDArray[Any]] = {
            **requests.ended(elapsed_ns),
            "reports": np.array(now.sent + now.lost - before.sent - before.lost),
            "reports_lost": np.array(now.lost - before.lost),
            # An entry names its connection in full.
            "inherited": np.array(0),
            "pcc_violations": np.array(now.pcc_violations - before.pcc_violations),
            "utilisation": np.clip((now.busy_ns - before.busy_ns) / whole_ns, 0, 1),
            # Of each request its mean: what it asks for is not in its packets.
            "offered": work_ns / whole_ns,
            "queue": self._spread(pod.rows.read()["busy"]).astype(np.int64),
            "chosen": chosen.astype(np.int64),
            "device_dropped": (now.rejected - before.rejected).astype(np.int64),
            **self._known(pod, now.time_ns),
        }
        copies = {name: values[None] for name, values in found.items()}
        return DeviceState(time_ns=np.array([elapsed_ns]), **copies)

    def _known(self, pod: DevicePod, now_ns: int) -> dict[str, npt.NDArray[Any]]:
        """Return what the balancer knows and does, as of now."""
        n, d = self._shape
        policy, heard = pod.block.policy(), pod.block.heard()[:n, :d]
        present = policy["present"][:n, None] >> np.arange(d) & 1 > 0
        slots = policy["weight"][:n, :d].astype(np.float64)
        total = slots.sum(axis=1, keepdims=True)
        return {
            "share": slots / np.where(total > 0, total, 1),
            "reported_load": heard["load"].astype(np.int64),
            "reported_busy": heard["is_busy"].astype(np.int64),
            "report_age_ns": pod.block.report_age_ns(now_ns)[:n, :d],
            "present": present & self._exists,
        }
