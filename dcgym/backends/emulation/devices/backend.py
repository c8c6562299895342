"""A pool of servers with accelerators in real time, behind the contract of device pools."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.commands import (
    check_device_rule,
    check_device_weights,
    read_device_episodes,
)
from dcgym.backends.emulation.audit.fidelity import FidelityAudit
from dcgym.backends.emulation.audit.links import unwatched_links
from dcgym.backends.emulation.audit.machine_load import MachineLoad
from dcgym.backends.emulation.capabilities import DEVICE_POOL
from dcgym.backends.emulation.devices.counts import DeviceCounts
from dcgym.backends.emulation.devices.events import DeviceEvents
from dcgym.backends.emulation.devices.pod import DevicePod
from dcgym.backends.emulation.devices.requests import DeviceRequests
from dcgym.backends.emulation.devices.stations import Stations
from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.checks import check_rule
from dcgym.backends.emulation.session.session import EmulatorSession
from dcgym.backends.needs import HORIZON_NS
from dcgym.backends.records import (
    EVENT_RECORDS,
    FIDELITY,
    FLOWS,
    OPEN_FLOWS,
    Fidelity,
    Record,
    RecordKind,
    RecordMakers,
    find_records,
)
from dcgym.config import check_in, check_int
from dcgym.errors import BackendError, ConfigError, needs_reset
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
from dcgym.tasks.accelerators.rules import SERVER_RULES
from dcgym.traffic.http import RequestResults
from dcgym.traffic.http.servers import CPUS

__all__ = ["EmulatedDevicePool"]

TRANSPORTS = ("udp", "tcp")
# The generator gets ready for the first requests meanwhile.
START_DELAY_NS = 10_000_000

T = TypeVar("T")
TimeArray = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_] | None


class EmulatedDevicePool:
    """One pool of stations in real time: a BPF balancer, real requests, agents of their own.

    See `dcgym.backends.base.DevicePool` for the calls; they mean what they mean for
    `AcceleratorTwin`. What differs: `advance` waits for its time; the network takes the time that
    it takes; ``offered`` counts each request with the mean work of its application; a speed that an
    event changes also holds for what is served already. The requests of a seed are those of the
    twin.

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

    name = "emulation"
    capabilities = DEVICE_POOL
    # For an object whose arguments were refused: it ends, too.
    _running: DevicePod | None = None
    _results: RequestResults | None = None

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
        if check_int("n_envs", n_envs, 1) != 1:
            raise ConfigError("n_envs", n_envs, "1 with the emulation")
        self.n_envs = 1
        check_in("transport", transport, TRANSPORTS)
        self._stations = Stations(self.pool, transport, check_in("work", work, CPUS))
        workers = sum(device.workers for device in self._stations.devices)
        if work == "burnt" and workers > (processors := os.cpu_count() or 1):
            allowed = f"timed: {workers} workers are more than the machine's {processors}"
            raise ConfigError("work", work, f"{allowed} processors")
        self.horizon_ns = check_int("horizon_ns", horizon_ns, 1)
        # Where servers have devices, the table names each flow's.
        self._options = PoolOptions(consistency="table", hook=hook)
        self._events = DeviceEvents(self._stations)
        self._counts = DeviceCounts(self._stations)
        limit = check_int("record_limit", record_limit, 0)
        self._requests = DeviceRequests(self._stations.homes, self.pool.latency_ns, limit)
        self._rules = "server-only", "ecmp"
        self._audit: FidelityAudit | None = None
        self._start_ns = 0

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
        self._drawn = draw_requests(self.pool, seed, rate_per_s, self.horizon_ns)
        self._drop_results()
        self._results = running.load(self._drawn, seed)
        self._requests.begin(self._drawn, self._results, 0)
        self._events.begin()
        running.begin_pools(self._events.eligible[None])
        self._events.show_members(running)
        self._start_ns = 0
        self._apply_rules(running)
        configured = [[device.weight for device in group.devices] for group in self.pool.servers]
        weights = np.zeros((self.pool.n_servers, self.pool.n_devices))
        for row, own in zip(weights, configured, strict=True):
            row[: len(own)] = own
        running.policy.set_weights(0, weights, self.pool.ring_slots)
        self._counts.begin(running)
        running.costs.begin()

    def _build(self) -> DevicePod:
        """Return the running pod, built anew where it is dead or not there."""
        if self._running is not None and self._running.session.death():
            self.close()
        if self._running is None:
            self._running = DevicePod(self._stations, self._options)
        return self._running

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
        if commands.device_rule is not None:
            device_rule = check_device_rule(commands.device_rule, self.pool.agents).name
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
        if (device_rule, server_rule) != self._rules:
            self._rules = device_rule, server_rule
            self._apply_rules(running)
        if weights is not None:
            running.policy.set_weights(0, weights, self.pool.ring_slots)
        return self._now_ns()

    def _apply_rules(self, running: DevicePod) -> None:
        device_rule, server_rule = self._rules
        rule = check_device_rule(device_rule, self.pool.agents)
        max_age_ns = self.pool.agents.max_age_ns or 0
        running.policy.set_rule(0, rule.number, self.pool.prt_threshold, max_age_ns)
        for writer in running.writers:
            writer.set_rule(server_rule)

    def advance(self, until_ns: npt.ArrayLike) -> TimeArray:
        """Wait until a time of the pool's clock; the first call starts the traffic, at time 0.

        Args:
            until_ns: The time, or shape (1,). One that has passed changes nothing.

        Returns:
            By how much it was missed, shape (1,).

        Raises:
            BackendError: The emulator died, or the episode's traffic is over.
        """
        target_ns = int(np.asarray(until_ns).reshape(-1)[0])
        running = self._alive()
        if target_ns > self.horizon_ns:
            seconds = self.horizon_ns / 1e9
            raise BackendError(f"the episode's traffic of {seconds:g} s is over", "call reset()")
        if not self._start_ns:
            self._start(running)
        elif target_ns <= int(self._now_ns()[0]):
            return np.zeros(1, np.int64)
        overrun_ns = self._run_until(running, target_ns)
        assert self._audit is not None
        self._audit.interval(overrun_ns)
        return np.array([overrun_ns], np.int64)

    def _start(self, running: DevicePod) -> None:
        assert self._results is not None
        start_ns = time.monotonic_ns() + START_DELAY_NS
        running.start(start_ns)
        self._start_ns = start_ns
        self._requests.begin(self._drawn, self._results, start_ns)
        load = MachineLoad.read(time.monotonic_ns(), running.session.generator_pid)
        self._audit = FidelityAudit(load, unwatched_links())

    def _run_until(self, running: DevicePod, target_ns: int) -> int:
        native = require()
        while (due_ns := self._events.due_ns) is not None and due_ns <= target_ns:
            native.wait_until(self._start_ns + due_ns)
            self._events.happen(running, self._start_ns)
        return int(native.wait_until(self._start_ns + target_ns))

    def _now_ns(self) -> TimeArray:
        elapsed_ns = time.monotonic_ns() - self._start_ns if self._start_ns else 0
        return np.array([max(elapsed_ns, 0)], np.int64)

    def read(self, mask: _Mask = None) -> DeviceState:
        """Return what has happened since the last call.

        Args:
            mask: Ignored: there is one copy.
        """
        running = self._alive()
        return self._counts.read(running, self._requests, self._start_ns, self._events.speed)

    def records(self, kind: RecordKind[T], env: int = 0) -> T:
        """Return what is recorded.

        Args:
            kind: `FLOWS` or `OPEN_FLOWS` (`AcceleratorTwin.records`): ``end_ns`` is the end at the
                client without twice the pool's `latency_ns`, so that latencies are those of the
                clients; who served a request that nobody answered is not known (65535).
                `EVENT_RECORDS`, with late_us and applied_us. `FIDELITY`: its figures hold
                ``agent_cpu_share`` and ``agent_cpu_share_max``, shares of a core that an agent
                took, the mean and the largest, and ``pcc_violations``.
            env: 0.

        Raises:
            BackendError: No episode has run yet (`FIDELITY`).
        """
        check_int("env", env, 0, 0)
        return find_records(kind, self._RECORDS)(self)

    def _finished(self) -> npt.NDArray[np.void]:
        return self._requests.take()

    def _under_way(self) -> npt.NDArray[np.void]:
        return self._requests.under_way(int(self._now_ns()[0]))

    def _happened(self) -> list[Record]:
        return list(self._events.records)

    def _fidelity(self) -> Fidelity:
        if self._audit is None or self._results is None:
            raise needs_reset("no episode has run yet")
        running, header = self._alive(), self._results.header()
        self._audit.starts(int(header["started"]), int(header["late_starts"]))
        load = MachineLoad.read(time.monotonic_ns(), running.session.generator_pid)
        found = self._audit.verdict(load, self._requests.begun())
        moved = running.counters(0)["pcc_violations"]
        own = {**running.costs.figures(), "pcc_violations": moved}
        return replace(found, figures={**found.figures, **own})

    _RECORDS: ClassVar[RecordMakers] = {
        FLOWS: _finished,
        OPEN_FLOWS: _under_way,
        EVENT_RECORDS: _happened,
        FIDELITY: _fidelity,
    }

    @property
    def session(self) -> EmulatorSession:
        """The emulator.

        Raises:
            BackendError: It is not running.
        """
        return self._there().session

    @property
    def running(self) -> DevicePod:
        """The pod, for what the contract does not have: counters, memory of the balancer.

        Raises:
            BackendError: It is not running.
        """
        return self._there()

    def _there(self) -> DevicePod:
        if self._running is None or self._running.session.is_closed:
            raise needs_reset("the emulator is not running")
        return self._running

    def _alive(self) -> DevicePod:
        """Return the pod, whose emulator and generator have given signs of life."""
        running = self._there()
        running.session.check_alive()
        silent_ns = running.session.check_generator()
        if self._audit is not None:
            self._audit.generator_silence(silent_ns)
        return running

    def _drop_results(self) -> None:
        results, self._results = self._results, None
        if results is not None:
            self._requests.end()
            results.close()

    def close(self) -> None:
        """End the emulator; a second call does nothing, and `reset` builds it anew."""
        self._drop_results()
        running, self._running = self._running, None
        if running is not None:
            running.session.close()

    def __del__(self) -> None:
        self.close()
