"""The balancing twin: many independent simulations of one scenario, side by side."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Fidelity, Record
from dcgym.backends.simulation.plain import plain_config
from dcgym.config import check_int
from dcgym.errors import BackendError, ConfigError
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.native import require_simulation
from dcgym.tasks.balancing import Scenario, make_scenario
from dcgym.tasks.balancing.presets import ScenarioSpec
from dcgym.tasks.balancing.records import check_counts
from dcgym.tasks.balancing.rules import RULES
from dcgym.tasks.balancing.servers import MAX_SERVERS
from dcgym.tasks.balancing.weights import check_weights
from dcgym.tasks.common.events import count_due

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CAPABILITIES", "BalancingTwin"]

CAPABILITIES = Capabilities(
    copies=65_536,
    events=True,
    oracles=True,
    shadows=True,
    closed_loops=True,
    stage_limits=True,
    copyable=True,
    rules=tuple(RULES),
    largest_hosts=MAX_SERVERS,
)
"""Of the twin: time waits, nothing disturbs it, and it knows what the servers know."""

LONGEST_DRAIN_NS = 10**9 * 3600 * 24 * 30
_LATEST_NS = int(np.iinfo(np.int64).max)
_Mask: TypeAlias = npt.NDArray[np.bool_] | None


class BalancingTwin:
    """Simulations of a balancing scenario, advanced together: a `Pool` in simulated time.

    Shapes use E environments, B balancers, N servers. An environment's course depends on its seed
    and on what is done to it, never on the number of environments or threads: bit for bit, on
    every machine with IEEE 754 doubles.

    Args:
        scenario: What `make_scenario` takes.
        n_envs: Number of environments.
        threads: Threads that `advance` and `observe` use.
        record_limit: Finished flows that an environment remembers between two calls of `records`;
            0 for none.
        warm_up_ns: Flows that start earlier are left out of `records` and `summary`; averages over
            time begin here too.

    Raises:
        ConfigError: An argument is not allowed.
        FeatureNotSupported: The compiled module was not built.
    """

    name = "simulation"
    capabilities = CAPABILITIES

    def __init__(
        self,
        scenario: ScenarioSpec,
        n_envs: int = 1,
        threads: int = 1,
        record_limit: int = 0,
        warm_up_ns: int = 0,
    ) -> None:
        """Build the environments; `reset` must come before anything else."""
        self.scenario: Scenario = make_scenario(scenario)
        self.n_envs = check_int("n_envs", n_envs, 1, 65_536)
        threads = check_int("threads", threads, 1, 256)
        record_limit = check_int("record_limit", record_limit, 0, 10**9)
        warm_up_ns = check_int("warm_up_ns", warm_up_ns, 0, 2**60)
        self.n_balancers = self.scenario.balancers
        self.n_servers = self.scenario.n_servers
        # The time that each environment has reached; -1 before the first `advance`.
        self._reached_ns = np.full(self.n_envs, -1, np.int64)
        self._drained = np.zeros(self.n_envs, np.bool_)
        self._all = np.ones(self.n_envs, np.uint8)
        self._everybody = [True] * self.n_balancers
        native: ModuleType = require_simulation()
        config = plain_config(self.scenario)
        self._twin = native.BalancingTwin(config, n_envs, threads, record_limit, warm_up_ns)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a second set of environments that go on from here; they share the scenario."""
        made = copy.copy(self)
        made._reached_ns, made._twin = self._reached_ns.copy(), self._twin.copy()
        made._drained = self._drained.copy()
        memo[id(self)] = made
        return made

    def reset(self, seeds: int | Sequence[int] | npt.ArrayLike, mask: _Mask = None) -> None:
        """Begin anew: time 0, empty servers, the scenario's pool, rule ``weighted``, equal weights.

        Args:
            seeds: One seed per environment, shape (E,), from 0 to 2**64 - 1; or a single one, from
                which the seeds of the environments are seed, seed + 1, ...
            mask: Which environments to reset, shape (E,); None for all. Seeds of the others are
                ignored.
        """
        values = np.asarray(seeds)
        if values.ndim == 0:
            first = check_int("seeds", seeds, 0, 2**64 - 1)
            values = np.array([(first + i) % 2**64 for i in range(self.n_envs)], np.uint64)
        if values.shape != (self.n_envs,) or values.dtype.kind not in "iu" or (values < 0).any():
            raise ConfigError("seeds", seeds, f"{self.n_envs} whole numbers of 0 or more")
        chosen = self._mask(mask)
        self._twin.reset(values.astype(np.uint64), chosen)
        self._reached_ns[chosen.view(np.bool_)] = -1
        self._drained &= ~chosen.view(np.bool_)

    def set_rule(self, name: str, balancer: int | None = None, mask: _Mask = None) -> None:
        """Let a balancer place new flows by this rule from now on.

        Args:
            name: A name in `RULES`.
            balancer: Number of the balancer; None for all.
            mask: Which environments, shape (E,); None for all.

        Raises:
            ConfigError: There is no such rule or balancer.
        """
        number = RULES.find(name).number
        if balancer is not None:
            balancer = check_int("balancer", balancer, 0, self.n_balancers - 1)
        self._twin.set_rule(number, -1 if balancer is None else balancer, self._mask(mask))

    def set_weights(
        self, weights: npt.ArrayLike, balancer: int | None = None, mask: _Mask = None
    ) -> npt.NDArray[np.int64]:
        """Set the weights of ``awcmp``, ``weighted`` and ``weighted2``; only their ratios count.

        Args:
            weights: Shape (E, B, N), or (E, N) for one balancer; finite and above 0.
            balancer: Number of the balancer; None for all.
            mask: Which environments, shape (E,); None for all.

        Returns:
            The time at which they were in force, shape (E,): now.

        Raises:
            ConfigError: The shape is wrong, or a weight is not finite or not above 0.
        """
        shape: tuple[int, ...] = (self.n_envs, self.n_balancers, self.n_servers)
        if balancer is not None:
            balancer = check_int("balancer", balancer, 0, self.n_balancers - 1)
            shape = (self.n_envs, self.n_servers)
        values = check_weights(weights, shape)
        self._twin.set_weights(values, -1 if balancer is None else balancer, self._mask(mask))
        return self.now_ns()

    def advance(self, until_ns: int | npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Run to a time; the interpreter lock is released meanwhile.

        Args:
            until_ns: Simulated time, one for all or one per environment, shape (E,). Events at
                this very time are handled. An earlier time than now changes nothing.

        Returns:
            By how much each time was missed, shape (E,): zeros.

        Raises:
            BackendError: Over 16 million flows are in flight, or an environment was drained.
        """
        values = np.asarray(until_ns)
        if values.dtype.kind not in "iu" or values.shape not in ((), (self.n_envs,)):
            raise ConfigError("until_ns", until_ns, f"one or {self.n_envs} whole numbers of ns")
        if values.dtype == np.uint64 and values.max() > _LATEST_NS:
            raise ConfigError("until_ns", int(values.max()), f"at most {_LATEST_NS}")
        if np.count_nonzero(self._drained):
            raise BackendError("an environment was drained", "reset it first")
        times = np.ascontiguousarray(values, dtype=np.int64)
        if values.ndim == 0:
            times = np.full(self.n_envs, values, np.int64)
        self._twin.advance(times)
        np.maximum(self._reached_ns, times, out=self._reached_ns)
        return np.zeros(self.n_envs, np.int64)

    def drain(self, mask: _Mask = None, limit_ns: int = LONGEST_DRAIN_NS) -> None:
        """Serve the flows that have arrived to their end; only a reset brings others.

        Without it, the flows that an episode leaves unfinished are missing from the records: more
        often the long ones, so that means come out too low. Afterwards `records` and the completion
        times of `summary` hold them too. Averages over time in `summary` stay those of before.

        Args:
            mask: Which environments, shape (E,); None for all.
            limit_ns: Time that it may take at most, for servers that never finish.

        Raises:
            BackendError: Over 16 million flows are in flight.
        """
        limit_ns = check_int("limit_ns", limit_ns, 0, LONGEST_DRAIN_NS)
        chosen = self._mask(mask)
        # Before: Ctrl-C leaves them amid it, and a second call goes on.
        self._drained |= chosen.view(np.bool_)
        self._twin.drain(self.now_ns() + limit_ns, chosen)

    def now_ns(self) -> npt.NDArray[np.int64]:
        """Return the time of each environment, shape (E,)."""
        return np.maximum(self._reached_ns, 0)

    def observe(self, balancers: Sequence[int] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return what the balancers can know, in new arrays.

        Args:
            balancers: Numbers of those whose samples are reduced, which takes most of the time: the
                others' reduced samples are 0. None for all.

        Returns:
            time_ns: (E,) int64, the time.
            ongoing: (E, B, N) int64, flows that the balancer tracks on the server (state CONN).
            flows, completed, packets: (E, B, N) int64, counters since the reset: flows that
                entered CONN, flows that left it by their end, packets towards the server.
            untracked: (E, B) int64, flows that found no free entry of the flow table.
            duration_us: (E, B, N, 5) float64, `REDUCERS` of the reservoir of flow durations:
                packet time minus the time of the SYN, at each packet in CONN; 0 without samples.
            completion_us: (E, B, N, 5) float64, the same of completed flows' durations.
            interarrival_us: (E, B, 5) float64, the same of the gaps between new flows.
            eligible: (E, N) bool, servers that take new flows.
            balancer_up: (E, B) bool.
            weights: (E, B, N) float64, the weights in force, the largest being 1.
            probe_busy, probe_queue: (E, B, N) int64, busy workers and flows at the server at the
                last poll that was answered; 0 before the first one.
            probe_time_ns: (E, B, N) int64, when that poll was taken; -1 before the first one.
            probe_answered, probe_errors: (E, B, N) int64, requests that the server had answered by
                then, and those of them with an error.
        """
        wanted = self._everybody
        if balancers is not None:
            wanted = [number in balancers for number in range(self.n_balancers)]
        found: dict[str, npt.NDArray[Any]] = self._twin.observe(wanted)
        return found

    def ongoing(self) -> npt.NDArray[np.int64]:
        """Return `observe`'s array of this name alone, in a tenth of the time."""
        found: npt.NDArray[np.int64] = self._twin.ongoing()
        return found

    def truth(self) -> dict[str, npt.NDArray[Any]]:
        """Return what nobody in the network knows, for oracles, rewards and tests.

        Returns:
            queue: (E, N) int64, flows at the server: waiting, on a CPU, in I/O.
            assigned: (E, N) int64, the same and those on their way to it.
            busy_workers: (E, N) int64, processors at work, at most the server's workers.
            remaining_ns: (E, N) float64, work left at the server, all stages, over its speed.
            capacity: (E, N) float64, CPU seconds a second that the server gives to flows when all
                its workers are busy; 0 for a server that is not there.
            remaining_by_balancer_ns: (E, B, N) float64, the parts of remaining_ns that each
                balancer placed.
            ended: (E,) int64, flows that have completed since the reset, of the warm-up too.
            ended_after_ns: (E,) int64, sum of their completion times.
            rejected, pcc_violations: (E,) int64, flows that ended so, those of the warm-up left
                out, as in `summary`.
        """
        found: dict[str, npt.NDArray[Any]] = self._twin.truth()
        return found

    def records(self, env: int = 0) -> npt.NDArray[Any]:
        """Return and forget the finished flows of an environment, in order of their end.

        Args:
            env: Number of the environment.

        Returns:
            An array of `flow_dtype`. Once the limit is reached further flows are counted in
            ``records_dropped`` of `summary` and not kept.
        """
        found: npt.NDArray[Any] = self._twin.records(self._env(env))
        return found

    def under_way(self, env: int = 0) -> npt.NDArray[Any]:
        """Return the flows of an environment that have arrived and not ended.

        Args:
            env: Number of the environment.

        Returns:
            An array of `flow_dtype` in no order, without those of the warm-up; the outcome is
            `UNDER_WAY`, ``end_ns`` is now.
        """
        found: npt.NDArray[Any] = self._twin.under_way(self._env(env))
        return found

    def summary(self, env: int = 0) -> dict[str, Any]:
        """Return figures of an environment since its warm-up, at constant cost of memory.

        Args:
            env: Number of the environment.

        Returns:
            A dict of
            duration_s; events (handled since the reset);
            arrivals, which is the sum of completed, rejected, pcc_violations, lost and in_flight;
            untracked, records_dropped;
            messages: name -> number: probes and idle messages sent, reports on SYN-ACKs, answers in
            time, late and repeated, messages lost, and those whose receiver had gone (unanswered);
            applications: name -> {count, mean_us, std_us, p50_us, p90_us, p95_us, p99_us} of
            completion times (percentiles within 1.6 %);
            server_flows, server_completed: lists, flows placed on each server and served by it;
            queue_mean, busy_mean: lists, averages over time of each server's flows and busy
            workers;
            jain_queue, jain_remaining, overprovision_queue, overprovision_remaining: averages
            over samples every 100 ms, of flows per configured capacity, and of remaining work.
        """
        found: dict[str, Any] = self._twin.summary(self._env(env))
        check_counts(found)
        names = [app.name for app in self.scenario.applications]
        found["applications"] = dict(zip(names, found["applications"], strict=True))
        return found

    def region(self, env: int, balancer: int) -> bytes:
        """Return a balancer's features in the layout of ``balancing.h``, one publication made.

        Args:
            env: Number of the environment.
            balancer: Number of the balancer.

        Raises:
            ConfigError: The scenario has more servers than the layout's 64.
        """
        if self.n_servers > SERVERS:
            allowed = f"at most {SERVERS} servers, all that the shared-memory layout holds"
            raise ConfigError("scenario.groups", self.n_servers, allowed)
        balancer = check_int("balancer", balancer, 0, self.n_balancers - 1)
        found: bytes = self._twin.region(self._env(env), balancer)
        return found

    def event_records(self, env: int = 0) -> list[Record]:
        """Return the events that have happened in an environment since its reset.

        Args:
            env: Number of the environment.

        Returns:
            `Event.record` of each, with late_us and applied_us, which are 0: events are on time.
        """
        events = self.scenario.events
        happened = events[: count_due(events, self._elapsed_ns(self._env(env)))]
        return [event.record() | {"late_us": 0.0, "applied_us": 0.0} for event in happened]

    def fidelity(self, env: int = 0) -> Fidelity:
        """Say how far an episode can be believed: nothing disturbs a simulation.

        Args:
            env: Number of the environment.
        """
        self._env(env)
        return Fidelity()

    def close(self) -> None:
        """Do nothing: the memory goes with the object."""

    def _elapsed_ns(self, env: int) -> int:
        """Return the time of an environment as events count it; below 0 before they begin."""
        return int(self._reached_ns[env])

    def _env(self, env: int) -> int:
        return check_int("env", env, 0, self.n_envs - 1)

    def _mask(self, mask: _Mask) -> npt.NDArray[np.uint8]:
        if mask is None:
            return self._all
        values = np.asarray(mask)
        if values.shape != (self.n_envs,) or values.dtype != np.bool_:
            raise ConfigError("mask", mask, f"{self.n_envs} booleans")
        return np.ascontiguousarray(values).view(np.uint8)
