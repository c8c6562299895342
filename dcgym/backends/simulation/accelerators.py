"""The twin of servers with accelerators: many simulations of one pool, side by side."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Fidelity, Record
from dcgym.config import check_in, check_int, check_range
from dcgym.errors import ConfigError
from dcgym.native import require_simulation
from dcgym.tasks.accelerators.agents import KINDS, Agents
from dcgym.tasks.accelerators.events import EVENTS, DeviceEvent
from dcgym.tasks.accelerators.pool import MOST_DEVICES, MOST_SERVERS, AcceleratorPool, DeviceGroup
from dcgym.tasks.accelerators.presets import PoolSpec, make_pool_of_devices
from dcgym.tasks.accelerators.rules import DEVICE_RULES, SERVER_RULES, DeviceRule
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.common.events import count_due
from dcgym.traffic.sizes import DISTRIBUTION_KINDS, Distribution

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ACCELERATOR_CAPABILITIES", "COMPLETED", "OUTCOMES", "UNDER_WAY", "AcceleratorTwin"]

OUTCOMES = ("completed", "dropped", "lost")
COMPLETED = OUTCOMES.index("completed")
UNDER_WAY = len(OUTCOMES)
"""What becomes of a request, in the order of the numbers in records."""

ACCELERATOR_CAPABILITIES = Capabilities(
    copies=65_536,
    events=True,
    oracles=True,
    copyable=True,
    rules=tuple(DEVICE_RULES),
    largest_hosts=MOST_SERVERS,
)

_NO_LIMIT = 2**32 - 1
_Mask: TypeAlias = npt.NDArray[np.bool_] | None
_Law: TypeAlias = tuple[int, float, float, list[tuple[float, float]]]
# Arrays of `observe` that have a column for each device of the compiled twin.
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
        record_limit: Finished requests that an environment keeps between two calls of `records`.

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
        native = require_simulation()
        config = _plain(self.pool) | {"record_limit": record_limit}
        self._twin = native.AcceleratorTwin(config, n_envs, threads)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a second set of environments that go on from here; they share the pool."""
        made = copy.copy(self)
        made._time_ns, made._twin = self._time_ns.copy(), self._twin.copy()
        memo[id(self)] = made
        return made

    def reset(
        self, seeds: npt.ArrayLike, rates_per_s: npt.ArrayLike | None = None, mask: _Mask = None
    ) -> None:
        """Begin anew: time 0, idle devices, no reports, the configured weights.

        Args:
            seeds: One seed per environment, (E,), from 0 to 2**64 - 1; or a single one, from which
                the seeds of the environments are seed, seed + 1, ...
            rates_per_s: Requests a second, (E,) or one for all; None for the pool's.
            mask: Which environments, (E,); None for all.
        """
        values = np.asarray(seeds)
        if values.ndim == 0:
            first = check_int("seeds", seeds, 0, 2**64 - 1)
            values = np.array([(first + i) % 2**64 for i in range(self.n_envs)], np.uint64)
        if values.shape != (self.n_envs,) or values.dtype.kind not in "iu":
            raise ConfigError("seeds", seeds, f"{self.n_envs} whole numbers of 0 or more")
        given = self.pool.rate_per_s if rates_per_s is None else rates_per_s
        rates = np.broadcast_to(np.asarray(given, np.float64), (self.n_envs,))
        if not np.isfinite(rates).all() or (rates < 0).any():
            raise ConfigError("rates_per_s", rates_per_s, "finite numbers of 0 or more")
        chosen = self._mask(mask)
        self._twin.reset(values.astype(np.uint64), np.ascontiguousarray(rates), chosen)
        self._time_ns[chosen.view(np.bool_)] = 0

    def set_rules(self, device_rule: str, server_rule: str = "ecmp", mask: _Mask = None) -> None:
        """Place new requests by these rules from now on; nothing is restarted.

        Args:
            device_rule: A name in `DEVICE_RULES`: which device of the server.
            server_rule: One of `SERVER_RULES`: which server.
            mask: Which environments, (E,); None for all.

        Raises:
            ConfigError: There is no such rule, or it needs what the pool's agents do not report.
        """
        rule = check_device_rule(device_rule, self.pool.agents)
        check_in("server_rule", server_rule, SERVER_RULES)
        self._twin.set_rules(RULES.find(server_rule).number, rule.number, self._mask(mask))

    def set_weights(self, weights: npt.ArrayLike, mask: _Mask = None) -> npt.NDArray[np.int64]:
        """Set the weights of the devices, which `wrr` and `dynamic-wrr` use.

        Args:
            weights: 0 or more, (E, N, D), or what broadcasts to that; one device of each server at
                least has a weight above 0.
            mask: Which environments, (E,); None for all.

        Returns:
            The time at which they were in force, (E,): now.

        Raises:
            ConfigError: A weight is not allowed, or those of a server are all 0.
        """
        shape = (self.n_envs, self.n_servers, self.n_devices)
        values = device_weights(weights, shape)
        full = np.zeros((*shape[:2], MOST_DEVICES))
        full[:, :, : self.n_devices] = values
        self._twin.set_weights(full, self._mask(mask))
        return self.now_ns()

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

    def now_ns(self) -> npt.NDArray[np.int64]:
        """Return the time of each environment, (E,)."""
        return self._time_ns.copy()

    def observe(self, mask: _Mask = None) -> Mapping[str, npt.NDArray[Any]]:
        """Return what has happened since the last call, and begin a new interval.

        Args:
            mask: Which environments, (E,); None for all. Rows of the others say nothing.

        Returns:
            time_ns: (E,) int64.
            arrivals, completed, dropped, lost: (E,) int64, requests; dropped by a full queue, lost
                by a device that has failed or a pool without devices.
            latency_mean_ns, latency_p50_ns, latency_p99_ns: (E,) float64, from the balancer back to
                it, of the requests that completed; NaN where none did.
            reports, reports_lost: (E,) int64, reports that were sent, and those that were lost.
            utilisation: (E, N, D) float64, share of the workers' time in use, 0 to 1.
            offered: (E, N, D) float64, work that came over what the workers can do, 0 or more.
            share: (E, N, D) float64, weights of each server's devices, adding up to 1.
            queue: (E, N, D) int64, requests at the device.
            chosen, device_dropped: (E, N, D) int64, requests sent there, and those dropped.
            reported_load: (E, N, D) int64, per cent, as the balancer knows it.
            reported_busy: (E, N, D) int64, 1 where the balancer takes the device for busy.
            report_age_ns: (E, N, D) int64, age of the last report; -1 where none has come.
            present: (E, N, D) bool, whether the balancer sends requests there.
        """
        found: dict[str, npt.NDArray[Any]] = self._twin.observe(self._mask(mask))
        made = {
            name: values[..., : self.n_devices] if values.ndim == _BY_DEVICE else values
            for name, values in found.items()
        }
        made["present"] = made["present"].astype(np.bool_)
        return made

    def records(self, env: int = 0) -> npt.NDArray[Any]:
        """Return and forget the finished requests of an environment, in order of their end.

        Args:
            env: Number of the environment.

        Returns:
            A structured array: arrival_ns, end_ns (without the network), request (number in order
            of arrival), application, server, device, outcome (`OUTCOMES`).
        """
        found: npt.NDArray[Any] = self._twin.records(check_int("env", env, 0, self.n_envs - 1))
        return found

    def under_way(self, env: int = 0) -> npt.NDArray[Any]:
        """Return the requests of an environment that have arrived and not ended, in no order.

        Args:
            env: Number of the environment.

        Returns:
            As `records`; the outcome is `UNDER_WAY`, ``end_ns`` is now.
        """
        found: npt.NDArray[Any] = self._twin.under_way(check_int("env", env, 0, self.n_envs - 1))
        return found

    def events(self, env: int = 0) -> int:
        """Return how many events an environment has handled since its reset.

        Args:
            env: Number of the environment.
        """
        return int(self._twin.events(check_int("env", env, 0, self.n_envs - 1)))

    def event_records(self, env: int = 0) -> list[Record]:
        """Return the scheduled events that have happened since the reset.

        Args:
            env: Number of the environment.
        """
        reached_ns = int(self._time_ns[check_int("env", env, 0, self.n_envs - 1)])
        happened = self.pool.events[: count_due(self.pool.events, reached_ns)]
        return [event.record() | {"late_us": 0.0, "applied_us": 0.0} for event in happened]

    def fidelity(self, env: int = 0) -> Fidelity:
        """Say how far an episode can be believed: nothing disturbs a simulation.

        Args:
            env: Number of the environment.
        """
        check_int("env", env, 0, self.n_envs - 1)
        return Fidelity()

    def close(self) -> None:
        """Do nothing: the memory goes with the object."""

    def _mask(self, mask: _Mask) -> npt.NDArray[np.uint8]:
        if mask is None:
            return self._all
        values = np.asarray(mask)
        if values.shape != (self.n_envs,) or values.dtype != np.bool_:
            raise ConfigError("mask", mask, f"{self.n_envs} booleans")
        return np.ascontiguousarray(values).view(np.uint8)


def check_device_rule(name: str, agents: Agents) -> DeviceRule:
    """Return a rule between devices.

    Args:
        name: Its name.
        agents: What the devices report.

    Raises:
        ConfigError: There is no such rule, or it needs what the agents do not report.
    """
    rule = DEVICE_RULES.find(name)
    if not agents.serves(rule.needs):
        wanted = "event" if rule.needs == "busy" else "periodic"
        allowed = f"kind {wanted}: {rule.name} needs its reports of {rule.needs}"
        raise ConfigError("agents", agents.kind, allowed)
    return rule


def device_weights(weights: npt.ArrayLike, shape: tuple[int, int, int]) -> npt.NDArray[np.float64]:
    """Return weights of devices in full.

    Args:
        weights: What broadcasts to the shape.
        shape: Environments, servers, devices.

    Raises:
        ConfigError: A weight is not allowed, or those of a server are all 0.
    """
    try:
        values = np.broadcast_to(np.asarray(weights, np.float64), shape)
    except ValueError:
        raise ConfigError("weights", weights, f"an array of shape {shape}") from None
    if not np.isfinite(values).all() or (values < 0).any():
        raise ConfigError("weights", weights, "finite numbers of 0 or more")
    if (values.sum(axis=2) <= 0).any():
        raise ConfigError("weights", weights, "above 0 for one device of each server at least")
    return values


def _plain(pool: AcceleratorPool) -> dict[str, Any]:
    total = sum(one.share for one in pool.applications)
    return {
        "servers": [(group.configured_weight, _devices(pool, group)) for group in pool.servers],
        "applications": [(one.share / total, _unit_law(one.demand)) for one in pool.applications],
        "agents": _agents(pool, pool.agents),
        "gaps": _unit_law(pool.gaps),
        "requests": pool.requests or 0,
        "latency_ns": pool.latency_ns,
        "threshold": pool.prt_threshold,
        "max_age_ns": pool.agents.max_age_ns or 0,
        "ring_slots": pool.ring_slots,
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


def _agents(pool: AcceleratorPool, agents: Agents) -> dict[str, Any]:
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


def _unit_law(law: Distribution) -> _Law:
    """Return the numbers of a distribution whose mean is scaled to 1."""
    shape = 0.0 if law.shape is None else float(law.shape)
    points = [(amount / law.mean_ns, level) for amount, level in law.points]
    return DISTRIBUTION_KINDS.index(law.kind), 1.0, shape, points
