"""A pool of servers with accelerators in real time, behind the contract of device pools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.commands import (
    check_device_rule,
    check_device_weights,
    read_device_episodes,
)
from dcgym.backends.emulation.capabilities import DEVICE_POOL
from dcgym.backends.emulation.devices.counts import DeviceCounts
from dcgym.backends.emulation.devices.events import DeviceEvents
from dcgym.backends.emulation.devices.pod import DevicePod
from dcgym.backends.emulation.devices.requests import DeviceRequests
from dcgym.backends.emulation.devices.stations import Stations
from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.base import EmulatedPod, TimeArray
from dcgym.backends.emulation.pool.checks import check_rule
from dcgym.backends.needs import HORIZON_NS
from dcgym.backends.records import (
    EVENT_RECORDS,
    FIDELITY,
    FLOWS,
    OPEN_FLOWS,
    Fidelity,
    Record,
    RecordMakers,
)
from dcgym.config import check_in, check_int
from dcgym.errors import ConfigError
from dcgym.native import require
from dcgym.tasks.accelerators.arrivals import draw_requests
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.accelerators.presets import PoolSpec, make_pool_of_devices
from dcgym.tasks.accelerators.protocol import (
    NOTHING,
    DeviceCommands,
    DeviceEpisode,
    DeviceState,
)
from dcgym.tasks.accelerators.rules import DEVICE_RULES, SERVER_RULES
from dcgym.traffic.http.servers import CPUS

__all__ = ["EmulatedDevicePool"]

TRANSPORTS = ("udp", "tcp")

_Mask = npt.NDArray[np.bool_] | None


class EmulatedDevicePool(EmulatedPod[DevicePod, DeviceRequests]):
    """One pool of stations in real time: a BPF balancer, real requests, agents of their own.

    See `dcgym.backends.base.DevicePool` for the calls; they mean what they mean for
    `AcceleratorTwin`. What differs: `advance` waits for its time; the network takes the time that
    it takes; ``offered`` counts each request with the mean work of its application; a speed that an
    event changes also holds for what is served already. The requests of a seed are those of the
    twin.

    `FLOWS` and `OPEN_FLOWS` are as in `AcceleratorTwin.records`: ``end_ns`` is the end at the
    client without twice the pool's `latency_ns`, so that latencies are those of the clients; who
    served a request that nobody answered is not known (65535). `EVENT_RECORDS` have late_us and
    applied_us. Figures of `FIDELITY` hold ``agent_cpu_share`` and ``agent_cpu_share_max``, shares
    of a core that an agent took, the mean and the largest.

    Args:
        pool: What `make_pool_of_devices` takes, of at most 256 devices.
        n_envs: 1.
        record_limit: Finished requests that are remembered until they are taken.
        horizon_ns: How much traffic an episode has; `advance` beyond it is refused.
        transport: "udp" or "tcp" of the requests.
        work: "timed": service passes the time, and costs nothing; "burnt": each worker is a thread
            that computes, and the machine must have a processor for it.
        hook: Where the balancer's program runs (`HOOKS` of the options).

    Attributes:
        pool: Servers, devices, requests and events.
        n_envs: 1.
        horizon_ns: How much traffic an episode has.

    Raises:
        ConfigError: An argument is not allowed.
    """

    capabilities = DEVICE_POOL

    def __init__(
        self,
        pool: PoolSpec,
        n_envs: int = 1,
        record_limit: int = 0,
        horizon_ns: int = HORIZON_NS,
        transport: str = "udp",
        work: str = "timed",
        hook: str = "tc",
    ) -> None:
        """Check the arguments; the network is built by the first `reset`."""
        self.pool: AcceleratorPool = make_pool_of_devices(pool)
        check_in("transport", transport, TRANSPORTS)
        self._stations = Stations(self.pool, transport, check_in("work", work, CPUS))
        workers = sum(device.workers for device in self._stations.devices)
        if work == "burnt" and workers > (processors := os.cpu_count() or 1):
            allowed = f"timed: {workers} workers are more than the machine's {processors}"
            raise ConfigError("work", work, f"{allowed} processors")
        limit = check_int("record_limit", record_limit, 0)
        requests = DeviceRequests(self._stations.homes, self.pool.latency_ns, limit)
        super().__init__(n_envs, horizon_ns, requests)
        # Where servers have devices, the table names each flow's.
        self._options = PoolOptions(consistency="table", hook=hook)
        self._events = DeviceEvents(self._stations)
        self._counts = DeviceCounts(self._stations)
        self._rules = "server-only", "ecmp"

    def reset(self, episodes: Sequence[DeviceEpisode | None]) -> None:
        """Begin anew in place: idle stations, no reports, no flow known, the configured weights.

        The traffic begins with the first `advance`.

        Args:
            episodes: The one of the pool; None in there leaves everything as it is.
        """
        seeds, rates_per_s, begun = read_device_episodes(episodes, 1, self.pool.rate_per_s)
        if not begun[0]:
            return
        seed, rate_per_s = int(seeds[0]), float(rates_per_s[0])
        running = self._build()
        self._load(running, draw_requests(self.pool, seed, rate_per_s, self.horizon_ns), seed)
        self._events.begin()
        running.begin_pools(self._events.eligible[None])
        configured = [[device.weight for device in group.devices] for group in self.pool.servers]
        weights = np.zeros((self.pool.n_servers, self.pool.n_devices))
        for row, own in zip(weights, configured, strict=True):
            row[: len(own)] = own
        device_rule, server_rule = self._rules
        running.policy.set_policy(
            0,
            rule=DEVICE_RULES[device_rule].number,
            threshold=self.pool.prt_threshold,
            max_age_ns=self.pool.agents.max_age_ns or 0,
            weights=weights,
            ring_slots=self.pool.ring_slots,
            members=self._events.members,
        )
        for writer in running.writers:
            writer.set_rule(server_rule)
        self._counts.begin(running)
        running.costs.begin()

    def _made(self) -> DevicePod:
        return DevicePod(self._stations, self._options)

    def apply(self, commands: DeviceCommands, mask: _Mask = None) -> TimeArray:
        """Do what is decided; nothing is restarted.

        Args:
            commands: What.
            mask: One boolean.

        Returns:
            The time at which it was in force, (1,).

        Raises:
            BackendError: The emulator died.
            ConfigError: There is no such rule, or it needs what the pool's agents do not report, or
                what requests over UDP do not show; or a weight is not allowed, or those of a server
                are all 0. Nothing is done then.
        """
        if commands is NOTHING:
            return self._now_ns()
        device_rule, server_rule = self._rules
        number = None
        if commands.device_rule is not None:
            rule = check_device_rule(commands.device_rule, self.pool.agents)
            device_rule, number = rule.name, rule.number
        if commands.server_rule is not None:
            server_rule = check_in("server_rule", commands.server_rule, SERVER_RULES)
            check_rule(server_rule, self._stations.scenario(), self._options)
        weights = commands.device_weights
        if weights is not None:
            shape = (1, self.pool.n_servers, self.pool.n_devices)
            weights = check_device_weights(weights, shape)[0]
        running = self._alive()
        if mask is not None and not np.all(mask):
            return self._now_ns()
        self._rules = device_rule, server_rule
        if number is not None or weights is not None:
            # One call: no connection meets a new rule with old weights.
            running.policy.set_policy(0, rule=number, weights=weights)
        if commands.server_rule is not None:
            for writer in running.writers:
                writer.set_rule(server_rule)
        return self._now_ns()

    def _run_until(self, running: DevicePod, deadline_ns: int) -> int:
        native, target_ns = require(), deadline_ns - self._start_ns
        while (due_ns := self._events.due_ns) is not None and due_ns <= target_ns:
            native.wait_until(self._start_ns + due_ns)
            self._events.happen(running, self._start_ns)
        return int(native.wait_until(deadline_ns))

    def read(self, mask: _Mask = None) -> DeviceState:
        """Return what has happened since the last call.

        Args:
            mask: Ignored: there is one copy.
        """
        running = self._alive()
        return self._counts.read(running, self._requests, self._start_ns, self._events.speed)

    def _happened(self) -> list[Record]:
        return list(self._events.records)

    def _fidelity(self) -> Fidelity:
        found, running = super()._fidelity(), self._alive()
        return replace(found, figures={**found.figures, **running.costs.figures()})

    _RECORDS: ClassVar[RecordMakers] = {
        FLOWS: EmulatedPod._finished,
        OPEN_FLOWS: EmulatedPod._under_way,
        EVENT_RECORDS: _happened,
        FIDELITY: _fidelity,
    }
