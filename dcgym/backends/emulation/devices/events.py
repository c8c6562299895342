"""Makes the events of a pool of devices happen in an emulated pod."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.devices.pod import DevicePod
from dcgym.backends.emulation.devices.stations import Stations
from dcgym.backends.emulation.wire.device_messages import SetAgent
from dcgym.backends.emulation.wire.messages import ChangeServer, SetCapacity
from dcgym.backends.records import Record
from dcgym.tasks.accelerators.events import DeviceEvent

__all__ = ["DeviceEvents"]


class DeviceEvents:
    """The schedule of a pool; rates are in the plan of the requests already.

    Args:
        stations: The stations, and the events of their pool.

    Attributes:
        present: Whether the balancer sends requests to a device, by server and position.
        speed: What each device runs at, times its first speed.
        records: The events that have happened, each with late_us (behind its time) and applied_us
            (until it was done).
    """

    def __init__(self, stations: Stations) -> None:
        self._pool = stations.pool
        self._station = {home: number for number, home in enumerate(stations.homes)}
        self.begin()

    def begin(self) -> None:
        """Start anew."""
        pool = self._pool
        self.present = np.zeros((pool.n_servers, pool.n_devices), np.bool_)
        for server, device in self._station:
            self.present[server, device] = pool.servers[server].devices[device].present
        self.speed = np.ones((pool.n_servers, pool.n_devices))
        self.records: list[Record] = []

    @property
    def eligible(self) -> npt.NDArray[np.bool_]:
        """Servers that have a device, (N,): they alone are in the pool."""
        return np.asarray(self.present.any(axis=1), np.bool_)

    @property
    def members(self) -> dict[int, list[int]]:
        """Devices that take new requests, of each server that has one."""
        return {
            int(server): np.flatnonzero(self.present[server]).tolist()
            for server in np.flatnonzero(self.eligible)
        }

    @property
    def due_ns(self) -> int | None:
        """When something happens next, from the beginning of the episode; None if nothing does."""
        event = self._next()
        return None if event is None else event.at_ns

    def _next(self) -> DeviceEvent | None:
        events = self._pool.events
        return events[len(self.records)] if len(self.records) < len(events) else None

    def happen(self, pod: DevicePod, start_ns: int) -> None:
        """Let the next event happen.

        Args:
            pod: Where.
            start_ns: CLOCK_MONOTONIC of the episode's beginning.
        """
        event = self._next()
        assert event is not None
        began_ns = time.monotonic_ns()
        for home in self._pool.targets(event):
            self._apply(event, home, pod)
        if event.kind in ("add-device", "remove-device"):
            pod.policy.set_policy(0, members=self.members)
            pod.set_eligible(self.eligible[None])
        done_ns = time.monotonic_ns()
        self.records.append(
            event.record()
            | {
                "late_us": (began_ns - start_ns - event.at_ns) / 1e3,
                "applied_us": (done_ns - began_ns) / 1e3,
            }
        )

    def _apply(self, event: DeviceEvent, home: tuple[int, int], pod: DevicePod) -> None:
        station = self._station[home]
        if event.kind == "device-speed":
            assert event.value is not None
            self.speed[home] = event.value
            pod.order(SetCapacity(station, float(event.value), 0.0))
        elif event.kind in ("device-failure", "device-recovery"):
            pod.order(ChangeServer(station, "kill" if "failure" in event.kind else "restart"))
        elif event.kind in ("add-device", "remove-device"):
            self.present[home] = event.kind == "add-device"
        else:
            pod.order(SetAgent(station, event.kind == "agent-silence"))
