"""The balancing twin: many independent simulations of one scenario, side by side."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities
from dcgym.backends.commands import (
    check_assignments,
    check_eligible,
    read_seeds,
    rule_names,
    sampled_flags,
)
from dcgym.backends.records import (
    EVENT_RECORDS,
    FIDELITY,
    FLOWS,
    OPEN_FLOWS,
    SUMMARY,
    Fidelity,
    Record,
    RecordKind,
    RecordMakers,
    find_records,
)
from dcgym.backends.simulation.plain import plain_config
from dcgym.config import check_int
from dcgym.errors import BackendError, ConfigError
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.native import require
from dcgym.tasks.balancing import Scenario, make_scenario
from dcgym.tasks.balancing.presets import ScenarioSpec
from dcgym.tasks.balancing.protocol import (
    NOTHING,
    CompletionTimes,
    HeldFlows,
    PoolCommands,
    PoolState,
    PoolSummary,
    PoolTruth,
    PoolView,
)
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
    assignments=True,
    eligible=True,
    shadows=True,
    closed_loops=True,
    stage_limits=True,
    vips=True,
    copyable=True,
    rules=tuple(RULES),
    largest_hosts=MAX_SERVERS,
)
"""Of the twin: time waits, nothing disturbs it, and it knows what the servers know."""

LONGEST_DRAIN_NS = 10**9 * 3600 * 24 * 30
_LATEST_NS = int(np.iinfo(np.int64).max)
_Mask: TypeAlias = npt.NDArray[np.bool_] | None
T = TypeVar("T")


class BalancingTwin:
    """Simulations of a balancing scenario, advanced together: a `Pool` in simulated time.

    Shapes use E environments, B front ends (each virtual address at each balancer, balancer by
    balancer), N servers. An environment's course depends on its seed and on what is done to it,
    never on the number of environments or threads: bit for bit, on every machine with IEEE 754
    doubles.

    Args:
        scenario: What `make_scenario` takes.
        n_envs: Number of environments.
        threads: Threads that `advance` and `read` use.
        record_limit: Finished flows that an environment remembers until they are taken; 0 for none.
        warm_up_ns: Flows that start earlier are left out of records and summary; averages over
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
        self.n_frontends = self.scenario.n_frontends
        self.n_servers = self.scenario.n_servers
        # The time that each environment has reached; -1 before the first `advance`.
        self._reached_ns = np.full(self.n_envs, -1, np.int64)
        self._drained = np.zeros(self.n_envs, np.bool_)
        self._all = np.ones(self.n_envs, np.uint8)
        self._sampled = [True] * self.n_frontends
        native: ModuleType = require("_simulation")
        config = plain_config(self.scenario)
        self._twin = native.BalancingTwin(config, n_envs, threads, record_limit, warm_up_ns)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return a second set of environments that go on from here; they share the scenario."""
        made = copy.copy(self)
        made._reached_ns, made._twin = self._reached_ns.copy(), self._twin.copy()
        made._drained = self._drained.copy()
        memo[id(self)] = made
        return made

    def reset(self, episodes: int | Sequence[int | None]) -> None:
        """Begin anew: time 0, empty servers, the scenario's pool, rule ``weighted``, equal weights.

        Args:
            episodes: The seed of each environment, (E,), from 0 to 2**64 - 1, None to leave it as
                it is; or a single one, from which the seeds are seed, seed + 1, ...
        """
        seeds, begun = read_seeds(episodes, self.n_envs)
        self._twin.reset(seeds, begun.view(np.uint8))
        self._reached_ns[begun] = -1
        self._drained &= ~begun

    def apply(self, commands: PoolCommands, mask: _Mask = None) -> npt.NDArray[np.int64]:
        """Do what is decided.

        Args:
            commands: What.
            mask: Which environments, shape (E,); None for all.

        Returns:
            The time at which it was in force, shape (E,): now.

        Raises:
            ConfigError: There is no such rule, server or balancer; or the weights have the wrong
                shape, or are not finite or not above 0; or no server is eligible. Nothing is done
                then.
        """
        if commands is NOTHING:
            return self._now_ns()
        chosen = self._mask(mask)
        held = commands.held_flows
        if held is not None:
            held = check_int("held_flows", held, 0, 2**53)
        rules = None if commands.rules is None else rule_names(commands.rules, self.n_frontends)
        weights, servers = commands.weights, commands.assignments
        if weights is not None:
            weights = check_weights(weights, (self.n_envs, self.n_frontends, self.n_servers))
        eligible = commands.eligible
        if eligible is not None:
            eligible = check_eligible(eligible, self.n_envs, self.n_servers)
        if servers is not None:
            servers = check_assignments(servers, self.n_envs, self.n_servers)
        if commands.sampled is not None:
            self._sampled = sampled_flags(commands.sampled, self.n_frontends)
        if held is not None:
            self._twin.hold_flows(held, chosen)
        if rules is not None:
            self._twin.set_rules([RULES[name].number for name in rules], chosen)
        if weights is not None:
            self._twin.set_weights(weights, chosen)
        if eligible is not None:
            self._twin.set_in_service(eligible.view(np.uint8), chosen)
        if servers is not None:
            self._twin.assign(servers, chosen)
        return self._now_ns()

    def advance(self, until_ns: int | npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Run to a time, or until a flow waits; the interpreter lock is released meanwhile.

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
        self._reached_ns = self._twin.advance(times)
        return np.zeros(self.n_envs, np.int64)

    def drain(self, mask: _Mask = None, limit_ns: int = LONGEST_DRAIN_NS) -> None:
        """Serve the flows that have arrived to their end; only a reset brings others.

        Without it, the flows that an episode leaves unfinished are missing from the records: more
        often the long ones, so that means come out too low. Afterwards the records and the
        completion times of the summary hold them too. Its averages over time stay those of before.

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
        self._twin.drain(self._now_ns() + limit_ns, chosen)

    def read(self, mask: _Mask = None) -> PoolState:
        """Return what is known of all environments, in new arrays, whatever the mask."""
        time_ns, seen, truth, held = self._twin.read(self._sampled)
        return PoolState(
            time_ns,
            PoolView(**seen),
            PoolTruth(**truth),
            None if held is None else HeldFlows(**held),
        )

    def records(self, kind: RecordKind[T], env: int = 0) -> T:
        """Return what is recorded of an environment.

        Once `record_limit` is reached, further flows are counted in ``records_dropped`` of the
        summary and not kept.

        Args:
            kind: `FLOWS`, `OPEN_FLOWS`, `SUMMARY`, `EVENT_RECORDS`, on time always, or `FIDELITY`:
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

    def _summary(self, env: int) -> PoolSummary:
        found = self._twin.summary(env)
        names = [app.name for app in self.scenario.applications]
        times = [CompletionTimes(**each) for each in found.pop("applications")]
        return PoolSummary(applications=dict(zip(names, times, strict=True)), **found)

    def _events(self, env: int) -> list[Record]:
        events, elapsed_ns = self.scenario.events, int(self._reached_ns[env])
        held = self.read().held
        if held is not None:
            begun_ns = int(held.begun_ns[env])
            elapsed_ns = -1 if begun_ns < 0 else elapsed_ns - begun_ns
        happened = events[: count_due(events, elapsed_ns)]
        return [event.record() | {"late_us": 0.0, "applied_us": 0.0} for event in happened]

    def _fidelity(self, env: int) -> Fidelity:
        return Fidelity()

    _RECORDS: ClassVar[RecordMakers] = {
        FLOWS: _finished,
        OPEN_FLOWS: _under_way,
        SUMMARY: _summary,
        EVENT_RECORDS: _events,
        FIDELITY: _fidelity,
    }

    def region(self, env: int, frontend: int) -> bytes:
        """Return a front end's features in the layout of ``balancing.h``, one publication made.

        Args:
            env: Number of the environment.
            frontend: Number of the front end.

        Raises:
            ConfigError: The scenario has more servers than the layout holds.
        """
        if self.n_servers > SERVERS:
            allowed = f"at most {SERVERS} servers, all that the shared-memory layout holds"
            raise ConfigError("scenario.groups", self.n_servers, allowed)
        frontend = check_int("frontend", frontend, 0, self.n_frontends - 1)
        env = check_int("env", env, 0, self.n_envs - 1)
        found: bytes = self._twin.region(env, frontend)
        return found

    def close(self) -> None:
        """Do nothing: the memory goes with the object."""

    def _now_ns(self) -> npt.NDArray[np.int64]:
        return np.maximum(self._reached_ns, 0)

    def _mask(self, mask: _Mask) -> npt.NDArray[np.uint8]:
        if mask is None:
            return self._all
        values = np.asarray(mask)
        if values.shape != (self.n_envs,) or values.dtype != np.bool_:
            raise ConfigError("mask", mask, f"{self.n_envs} booleans")
        return np.ascontiguousarray(values).view(np.uint8)
