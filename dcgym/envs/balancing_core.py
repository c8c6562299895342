"""What all balancing environments share: many server pools, stepped together.

Shapes: E pools, M balancers, A of them controlled, N servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.backends.simulation.balancing import BalancingTwin
from dcgym.config import check_in, check_int
from dcgym.errors import BackendError, ConfigError
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.tasks.balancing import Scenario, make_scenario, measure
from dcgym.tasks.balancing.actions import make_weight_map
from dcgym.tasks.balancing.observation import BalancerObservation
from dcgym.tasks.balancing.presets import ScenarioSpec
from dcgym.tasks.balancing.rewards import BALANCING_REWARDS
from dcgym.tasks.balancing.rules import RULES, kernel_rules
from dcgym.tasks.common.rewards import Reward
from dcgym.units import parse_duration

__all__ = ["BACKENDS", "BalancingCore", "BalancingSettings", "ScenarioSpec"]

BACKENDS = ("simulation", "emulation")

FloatArray: TypeAlias = npt.NDArray[np.float64]
TwinMaker: TypeAlias = Callable[[Scenario, int], Any]

TIMES = ("action_latency_us", "observation_age_us", "deadline_overrun_us")
NS_PER_S = 1e9
# Of an emulated episode; the slack is for agents that come late.
LONGEST_NS = 600 * 10**9
LONGEST_FLOWS = 500_000
SLACK_NS = 30 * 10**9


@dataclass(frozen=True)
class BalancingSettings:
    """Arguments that all balancing environments take; each class documents them.

    Attributes:
        scenario: Name, mapping, file or `Scenario`.
        backend: "simulation"; "emulation", one pool in real time; or a function of scenario and
            number of pools that makes a twin.
        interval: Control interval.
        reward: A term, a list of terms, or a mapping term to weight.
        action: "continuous" or "discrete".
        rule: Rule of the controlled balancers.
        record_limit: Finished flows that each pool keeps for `flow_records`.
        warm_up: Time whose flows the twin's records and averages leave out.
        max_steps: Steps of the longest episode, for which the emulation plans its traffic; None
            for ten minutes of it, or half a million flows.
    """

    scenario: ScenarioSpec = "yao-sim-8"
    backend: str | TwinMaker = "simulation"
    interval: str | int | float = "250ms"
    reward: str | Sequence[str] | Mapping[str, float] = "vbf_log_vbf"
    action: str = "continuous"
    rule: str = "weighted"
    record_limit: int = 0
    warm_up: str | int | float = 0
    max_steps: int | None = None
    pool: Scenario = field(init=False)
    interval_ns: int = field(init=False)
    warm_up_ns: int = field(init=False)

    def __post_init__(self) -> None:
        """Check the arguments; nothing is built."""
        if not callable(self.backend):
            check_in("backend", self.backend, BACKENDS)
        if self.max_steps is not None:
            check_int("max_steps", self.max_steps, 1)
        check_in("rule", self.rule, self.rules)
        check_int("record_limit", self.record_limit, 0)
        interval_ns = parse_duration(self.interval, "interval")
        if interval_ns <= 0:
            raise ConfigError("interval", self.interval, "a duration above 0, such as '250ms'")
        object.__setattr__(self, "interval_ns", interval_ns)
        object.__setattr__(self, "warm_up_ns", parse_duration(self.warm_up, "warm_up"))
        object.__setattr__(self, "pool", make_scenario(self.scenario))
        if self.is_real_time:
            check_int("scenario.groups", self.pool.n_servers, 1, SERVERS)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that the backend offers."""
        return kernel_rules() if self.is_real_time else tuple(RULES)

    @property
    def is_real_time(self) -> bool:
        """Whether time passes by itself, so that the same seed does not give the same bits."""
        return self.backend == "emulation"

    @property
    def horizon_ns(self) -> int:
        """How much traffic an episode of the emulation has."""
        if self.max_steps is not None:
            return (self.max_steps + 1) * self.interval_ns + SLACK_NS
        longest_ns = LONGEST_FLOWS / sum(self.pool.rates_per_s) * NS_PER_S
        return min(LONGEST_NS, round(longest_ns))


class BalancingCore:
    """E pools of one scenario: actions in, observations, rewards and metrics out.

    Attributes:
        scenario: The scenario.
        n_servers: Number of servers.
        configured_weights: The weight of each server as its operator sees it.
        weight_map: What one balancer's action means.
        observation: What one balancer observes.
        reward: The reward's terms and weights.
        observations: Observations of the controlled balancers, shape (E, A, 12 N + 5).
        terms: Each reward term, shape (E, A).
        seeds: The seed of each pool's episode, shape (E,).
        seen: What the balancers know (`BalancingTwin.observe`).
        truth: What only the twin knows (`BalancingTwin.truth`).
    """

    def __init__(
        self,
        settings: BalancingSettings,
        n_pools: int,
        controlled: Sequence[int] | None = None,
        others: str = "sed",
    ) -> None:
        """Build the spaces; the twin is made at the first `begin`.

        Args:
            settings: The arguments of the environment.
            n_pools: Number of pools.
            controlled: Numbers of the controlled balancers; None for all.
            others: Rule of the balancers that are not controlled.
        """
        if settings.is_real_time and n_pools > 1:
            raise ConfigError("num_envs", n_pools, "one pool with the backend emulation")
        self.settings = settings
        self.scenario = settings.pool
        self.n_pools = n_pools
        self.n_servers = self.scenario.n_servers
        self.controlled = tuple(controlled or range(self.scenario.balancers))
        for balancer in self.controlled:
            check_int("balancer", balancer, 0, self.scenario.balancers - 1)
        self._others = check_in("others", others, settings.rules)
        groups = self.scenario.server_groups
        self.configured_weights = np.array([group.configured_weight for group in groups])
        self._workers = np.array([group.workers for group in groups], np.float64)
        self.weight_map = make_weight_map(settings.action, self.n_servers)
        self.observation = BalancerObservation(self.n_servers)
        self.reward = Reward(settings.reward, BALANCING_REWARDS)
        shape = (n_pools, len(self.controlled), self.n_servers)
        self._idle = self.weight_map.from_weights(np.ones(self.n_servers))
        self._last_actions = np.broadcast_to(self.weight_map.unit(self._idle), shape).copy()
        self._weights = np.ones((n_pools, self.scenario.balancers, self.n_servers))
        self._begun_ns = np.zeros(n_pools, np.int64)
        self._is_fresh = np.ones(n_pools, np.bool_)
        self._counts = {name: np.zeros(n_pools) for name in measure.COUNTERS}
        self.seeds = np.zeros(n_pools, np.uint64)
        self._twin: Any = None

    @property
    def twin(self) -> Any:
        """The twin of a running episode.

        Raises:
            BackendError: No episode is running.
        """
        if self._twin is None:
            raise BackendError("no episode is running: call reset() first")
        return self._twin

    @property
    def is_running(self) -> bool:
        """Whether a twin exists."""
        return self._twin is not None

    def begin(self, seeds: npt.NDArray[np.uint64], mask: npt.NDArray[np.bool_]) -> None:
        """Empty the pools of the mask and seed them; the next `advance` measures them.

        Args:
            seeds: A seed for each pool, shape (E,); those outside the mask are ignored.
            mask: Which pools, shape (E,).
        """
        if self._twin is None:
            self._twin = self._make_twin()
            mask = np.ones(self.n_pools, np.bool_)
        self._twin.reset(seeds, mask=mask)
        self.seeds = np.where(mask, seeds, self.seeds)
        self._twin.set_rule(self._others, mask=mask)
        for balancer in self.controlled:
            self._twin.set_rule(self.settings.rule, balancer, mask=mask)
        self._is_fresh = self._is_fresh | mask
        self._counts = {name: np.where(mask, 0.0, self._counts[name]) for name in measure.COUNTERS}

    def advance(self, actions: npt.NDArray[Any] | None) -> None:
        """Set the weights, run one interval and measure it.

        Pools that have just begun run their first interval with equal weights, whatever the
        action, so that the first observation of an episode is a measured one.

        Args:
            actions: Actions of the controlled balancers, shape (E, A, N); None only where all
                pools have just begun.

        Raises:
            ConfigError: An action is not allowed.
            BackendError: No episode is running.
        """
        twin = self.twin
        if actions is None:
            actions = np.broadcast_to(self._idle, self._last_actions.shape)
        weights = self.weight_map.to_weights(actions)
        units = self.weight_map.unit(np.asarray(actions))
        if self._is_fresh.any():
            weights[self._is_fresh] = 1.0
            units = np.where(self._is_fresh[:, None, None], self.weight_map.unit(self._idle), units)
            self._begun_ns[self._is_fresh] = 0
        self._weights[:, list(self.controlled)] = weights
        self._last_actions = units
        twin.set_weights(self._weights)
        self._begun_ns += self.settings.interval_ns
        twin.advance(self._begun_ns)
        self._is_fresh[:] = False
        self._measure()

    def time_s(self, pool: int) -> float:
        """Return the time since a pool's first observation of this episode."""
        return float(self._begun_ns[pool] - self.settings.interval_ns) / NS_PER_S

    def rewards(self) -> FloatArray:
        """Return the reward of each controlled balancer, shape (E, A)."""
        total: FloatArray = sum(self.terms.values(), np.zeros(self._last_actions.shape[:2]))
        return total

    def metrics(self) -> dict[str, FloatArray]:
        """Return the metrics of the interval and of its end, each of shape (E,).

        Returns:
            flows, completed: flows that the balancers saw begin and end.
            fct_us_mean: mean over servers and balancers of the recent flows' completion times.
            queue: flows at all servers.
            jain, overprovision: over each server's flows per processor, of those in the pool.
            utilisation: busy processors over those of the servers that are there.
            untracked: flows so far that found no room in a flow table.
        """
        return measure.interval_metrics(self.seen, self.truth, self._workers, self._before)

    def servers(self, pool: int, agent: int) -> dict[str, npt.NDArray[Any]]:
        """Return what a controlled balancer measured, in plain units, for slow loops.

        Returns:
            ongoing: flows that it tracks, shape (N,).
            duration_s, completion_s: reduced samples, shape (N, 5).
            probed_flows, probe_time_s: flows at the server at the last answered poll, and when
                that was taken (negative before the first one), shape (N,).
            eligible: servers that take new flows, shape (N,).
        """
        return measure.server_info(self.seen, pool, self.controlled[agent])

    def weights(self, pool: int, agent: int) -> FloatArray:
        """Return the weights in force of a controlled balancer, shape (N,)."""
        found: FloatArray = self._weights[pool, self.controlled[agent]].copy()
        return found

    def queues(self, pool: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Return each server's flows and its processors, for pictures."""
        return self.truth["queue"][pool], self._workers

    def timing(self) -> dict[str, float]:
        """Return action_latency_us, observation_age_us, deadline_overrun_us and is_restarted."""
        if not self.settings.is_real_time:
            return dict.fromkeys(TIMES, 0.0) | {"is_restarted": False}
        found: dict[str, float] = self.twin.timing()
        return found

    def fidelity(self) -> dict[str, Any]:
        """Say how far the episode can be believed: status, reasons, figures."""
        if not self.settings.is_real_time:
            return dict(self.twin.fidelity(0).to_dict())
        found: dict[str, Any] = self.twin.fidelity()
        return found

    def close(self) -> None:
        """End the twin; `begin` makes a new one."""
        twin, self._twin = self._twin, None
        if twin is not None:
            twin.close()

    def _make_twin(self) -> Any:
        backend = self.settings.backend
        if callable(backend):
            return backend(self.scenario, self.n_pools)
        options = {
            "record_limit": self.settings.record_limit,
            "warm_up_ns": self.settings.warm_up_ns,
        }
        if backend == "simulation":
            return BalancingTwin(self.scenario, self.n_pools, **options)
        from dcgym.backends.emulation.pool.backend import EmulatedPool

        horizon_ns = self.settings.horizon_ns
        return EmulatedPool(self.scenario, self.n_pools, **options, horizon_ns=horizon_ns)

    def _measure(self) -> None:
        self.seen, self.truth = self.twin.observe(), self.twin.truth()
        measured = measure.measurements(self.seen, self.controlled)
        self.observations = self.observation.observe(measured, self._last_actions)
        self.terms = self.reward.terms(measure.load_inputs(self.seen, self.truth, self.controlled))
        self._before = self._counts
        self._counts = measure.counts(self.seen)
