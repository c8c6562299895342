"""The twin of servers with accelerators: many simulations of one pool, side by side."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities
from dcgym.backends.commands import (
    check_device_rule,
    check_device_weights,
    read_device_episodes,
)
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
from dcgym.config import check_in, check_int, check_range
from dcgym.errors import ConfigError
from dcgym.native import require
from dcgym.tasks.accelerators.agents import KINDS, Agents
from dcgym.tasks.accelerators.arrivals import request_workload
from dcgym.tasks.accelerators.events import EVENTS, DeviceEvent
from dcgym.tasks.accelerators.pool import MOST_DEVICES, MOST_SERVERS, AcceleratorPool, DeviceGroup
from dcgym.tasks.accelerators.presets import PoolSpec, make_pool_of_devices
from dcgym.tasks.accelerators.protocol import (
    NOTHING,
    DeviceCommands,
    DeviceEpisode,
    DeviceState,
)
from dcgym.tasks.accelerators.rules import DEVICE_RULES, SERVER_RULES
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.common.events import count_due

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ACCELERATOR_CAPABILITIES", "AcceleratorTwin"]

ACCELERATOR_CAPABILITIES = Capabilities(
    copies=65_536,
    events=True,
    oracles=True,
    copyable=True,
    rules=tuple(DEVICE_RULES),
    largest_hosts=MOST_SERVERS,
)

_NO_LIMIT = 2**32 - 1
_AS_IT_IS = -1
T = TypeVar("T")
_Mask: TypeAlias = npt.NDArray[np.bool_] | None
# Arrays of a `DeviceState` that have a column for each device of the compiled twin.
_BY_DEVICE = 3


class AcceleratorTwin:
    """Simulations of a pool of servers with devices: a `DevicePool` in simulated time.

    Shapes use E environments, N servers, D devices of the server that has most of them. A request
    is one message; the network takes a constant time and is never full. An environment's course
    depends on its seed, its rate and what is done to it, never on the number of environments or
    threads. The same seed and rate bring the same requests, whatever the rules and weights are.

    Args:
        pool: What `make_pool_of_devices` takes.
        n_envs: Number of environments.
        threads: Threads that `advance` uses.
        record_limit: Finished requests that an environment keeps until they are taken.

    Raises:
        ConfigError: An argument is not allowed.
        FeatureNotSupported: The compiled module was not built.
    """

    name = "simulation"
    capabilities = ACCELERATOR_CAPABILITIES

    def __init__(
        self, pool: PoolSpec, n_envs: int = 1, threads: int = 1, record_limit: int = 0
    ) -> None:
        """Build the environments; `reset` must come before anything else."""
        self.pool: AcceleratorPool = make_pool_of_devices(pool)
        self.n_envs = check_int("n_envs", n_envs, 1, 65_536)
        threads = check_int("threads", threads, 1, 256)
        record_limit = check_int("record_limit", record_limit, 0, 10**9)
        self.n_servers, self.n_devices = self.pool.n_servers, self.pool.n_devices
        self._time_ns = np.zeros(self.n_envs, np.int64)
        self._all = np.ones(self.n_envs, np.uint8)
        native = require("_simulation")
        config = _plain(self.pool) | {"record_limit": record_limit}
        self._twin = native.AcceleratorTwin(config, n_envs, threads)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return a second set of environments that go on from here; they share the pool."""
        made = copy.copy(self)
        made._time_ns, made._twin = self._time_ns.copy(), self._twin.copy()
        memo[id(self)] = made
        return made

    def reset(self, episodes: Sequence[DeviceEpisode | None]) -> None:
        """Begin anew: time 0, idle devices, no reports, the configured weights.

        Args:
            episodes: Of each environment, (E,); None to leave it as it is.
        """
        seeds, rates, begun = read_device_episodes(episodes, self.n_envs, self.pool.rate_per_s)
        self._twin.reset(seeds, rates, begun.view(np.uint8))
        self._time_ns[begun] = 0

    def apply(self, commands: DeviceCommands, mask: _Mask = None) -> npt.NDArray[np.int64]:
        """Do what is decided; nothing is restarted.

        Args:
            commands: What.
            mask: Which environments, (E,); None for all.

        Returns:
            The time at which it was in force, (E,): now.

        Raises:
            ConfigError: There is no such rule, or it needs what the pool's agents do not report; or
                a weight is not allowed, or those of a server are all 0. Nothing is done then.
        """
        if commands is NOTHING:
            return self._time_ns.copy()
        chosen, weights = self._mask(mask), commands.device_weights
        device_rule = server_rule = _AS_IT_IS
        if commands.device_rule is not None:
            device_rule = check_device_rule(commands.device_rule, self.pool.agents).number
        if commands.server_rule is not None:
            server_rule = RULES[check_in("server_rule", commands.server_rule, SERVER_RULES)].number
        if weights is not None:
            shape = (self.n_envs, self.n_servers, self.n_devices)
            full = np.zeros((*shape[:2], MOST_DEVICES))
            full[:, :, : self.n_devices] = check_device_weights(weights, shape)
            self._twin.set_weights(full, chosen)
        self._twin.set_rules(server_rule, device_rule, chosen)
        return self._time_ns.copy()

    def advance(self, until_ns: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Run to a time; the interpreter lock is released meanwhile.

        Args:
            until_ns: Simulated time, one for all or (E,). An earlier time changes nothing.

        Returns:
            By how much each time was missed, (E,): zeros.

        Raises:
            BackendError: Over 16 million requests wait at a device.
        """
        times = np.array(np.broadcast_to(np.asarray(until_ns, np.int64), (self.n_envs,)))
        self._twin.advance(times)
        np.maximum(self._time_ns, times, out=self._time_ns)
        return np.zeros(self.n_envs, np.int64)

    def read(self, mask: _Mask = None) -> DeviceState:
        """Return what has happened since the last call, and begin a new interval.

        Args:
            mask: Which environments, (E,); None for all. Rows of the others say nothing.
        """
        found = self._twin.read(self._mask(mask))
        made = {
            name: values[..., : self.n_devices] if values.ndim == _BY_DEVICE else values
            for name, values in found.items()
        }
        return DeviceState(**made)

    def records(self, kind: RecordKind[T], env: int = 0) -> T:
        """Return what is recorded of an environment.

        Args:
            kind: `FLOWS` or `OPEN_FLOWS`: requests, a structured array of arrival_ns, end_ns
                (without the network; now for those that have not ended), request (number in order
                of arrival), application, server, device, outcome (of
                `dcgym.tasks.accelerators.records`). `EVENT_RECORDS`, on time always. `FIDELITY`:
                nothing disturbs a simulation.
            env: Number of the environment.
        """
        return find_records(kind, self._RECORDS)(self, check_int("env", env, 0, self.n_envs - 1))

    def _finished(self, env: int) -> npt.NDArray[np.void]:
        found: npt.NDArray[np.void] = self._twin.records(env)
        return found

    def _under_way(self, env: int) -> npt.NDArray[np.void]:
        found: npt.NDArray[np.void] = self._twin.under_way(env)
        return found

    def _happened(self, env: int) -> list[Record]:
        events = self.pool.events[: count_due(self.pool.events, int(self._time_ns[env]))]
        return [event.record() | {"late_us": 0.0, "applied_us": 0.0} for event in events]

    def _fidelity(self, env: int) -> Fidelity:
        return Fidelity()

    _RECORDS: ClassVar[RecordMakers] = {
        FLOWS: _finished,
        OPEN_FLOWS: _under_way,
        EVENT_RECORDS: _happened,
        FIDELITY: _fidelity,
    }

    def close(self) -> None:
        """Do nothing: the memory goes with the object."""

    def _mask(self, mask: _Mask) -> npt.NDArray[np.uint8]:
        if mask is None:
            return self._all
        values = np.asarray(mask)
        if values.shape != (self.n_envs,) or values.dtype != np.bool_:
            raise ConfigError("mask", mask, f"{self.n_envs} booleans")
        return np.ascontiguousarray(values).view(np.uint8)


def _plain(pool: AcceleratorPool) -> dict[str, object]:
    return request_workload(pool) | {
        "servers": [(group.configured_weight, _devices(pool, group)) for group in pool.servers],
        "agents": _agents(pool, pool.agents),
        "latency_ns": pool.latency_ns,
        "threshold": pool.prt_threshold,
        "max_age_ns": pool.agents.max_age_ns or 0,
        "ring_slots": pool.ring_slots,
        "connection_table": asdict(pool.connection_table),
        "events": [_event(pool, event) for event in pool.events],
    }


def _devices(
    pool: AcceleratorPool, group: DeviceGroup
) -> list[tuple[bool, int, int, float, list[float]]]:
    return [
        (
            device.present,
            device.workers,
            _NO_LIMIT if device.queue_limit is None else device.queue_limit,
            float(device.weight),
            [device.time_ns(one.name, one.gflop) for one in pool.applications],
        )
        for device in group.devices
    ]


def _agents(pool: AcceleratorPool, agents: Agents) -> dict[str, object]:
    return {
        "kind": KINDS.index(agents.kind),
        "period_ns": agents.period_ns,
        "window": agents.window,
        "delay_ns": agents.delay_ns,
        "loss": float(check_range("agents.loss", agents.loss, 0, 1)),
        "threshold_ns": [agents.threshold_of(one.name) for one in pool.applications],
        "release": float(agents.release),
        "second_report_ns": agents.second_report_ns,
    }


def _event(pool: AcceleratorPool, event: DeviceEvent) -> tuple[int, int, list[int], float]:
    numbers = [server * MOST_DEVICES + device for server, device in pool.targets(event)]
    return event.at_ns, EVENTS.index(event.kind), numbers, float(event.value or 0.0)
