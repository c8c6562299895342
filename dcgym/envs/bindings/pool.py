"""Tasks on a server pool, bound to one: many copies, one or several agents.

Shapes: E copies, B front ends, M of them controlled, A agents, N servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Pool
from dcgym.backends.needs import PoolNeeds
from dcgym.backends.records import Record
from dcgym.backends.registry import POOLS
from dcgym.backends.shadow import ShadowedPool
from dcgym.config import check_in
from dcgym.envs.backends import make_copies
from dcgym.envs.bindings.base import Binding
from dcgym.envs.bindings.pool_flows import check_scenario, serve_out, traffic_ns
from dcgym.envs.bindings.scenario_time import records_since
from dcgym.envs.infos import ValueArray
from dcgym.envs.values import (
    Actions,
    Caption,
    FloatArray,
    Info,
    Mask,
    Observations,
    Picture,
    Rows,
    Seen,
    Told,
)
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.frontends import frontend_name
from dcgym.tasks.balancing.interval import PoolInterval
from dcgym.tasks.balancing.measure import (
    COUNTERS,
    LoadInputs,
    counts,
    frontend_index,
    interval_metrics,
    left_out,
    server_info,
)
from dcgym.tasks.balancing.observation import ObservedChanges
from dcgym.tasks.balancing.protocol import NOTHING, PoolCommands, PoolState
from dcgym.tasks.balancing.rewards import GAIN_OVER_SED
from dcgym.tasks.balancing.task import BalancingTask
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.states import where

if TYPE_CHECKING:
    from dcgym.envs.render.pool import PoolPainter

__all__ = ["PoolBinding"]

NEVER_NS = np.iinfo(np.int64).max
# Flows at a server that its part of the state calls one half.
STATE_SCALE = 8.0


class PoolBinding(Binding[BalancingTask, int, PoolCommands, PoolState]):
    """A task on copies of a pool.

    Args:
        task: The task.
        backend: Name of a backend, or a function that makes a `Pool` of a scenario and a number
            of copies.
        n_envs: Number of copies.

    Attributes:
        reward: Terms and weights, known once a backend has said what it can do.
        origin_ns: The first observation of an episode on the pool's clock: time 0 of the scenario.
        scenario: The task's on the pool's clock.

    Raises:
        ConfigError: The backend cannot do what the task asks for.
    """

    nothing = NOTHING
    is_measured_at_once = False
    reward: Reward[LoadInputs, FloatArray]

    def __init__(self, task: BalancingTask, backend: object, n_envs: int = 1) -> None:
        super().__init__(task, n_envs, task.interval_ns)
        self._spec, self.paths = backend, task.settings.paths
        groups = task.scenario.server_groups
        self._workers = np.array([group.workers for group in groups], np.float64)
        self._configured = np.array([group.configured_weight for group in groups], np.float64)
        self._chosen = list(task.controlled)
        self._at = frontend_index(self._chosen)
        shape = (n_envs, len(self._chosen), task.n_servers)
        idle = task.weight_map.from_weights(np.ones(task.n_servers))
        self._idle = task.weight_map.unit(np.broadcast_to(idle, shape))
        self._last_actions = self._idle
        self._weights = np.ones((n_envs, task.scenario.n_frontends, task.n_servers))
        # What the last action said of each server, -1 to 1, where that is decided.
        self._serving = np.ones((n_envs, 0 if task.service is None else task.n_servers))
        self._before = self._counts = {name: np.zeros(n_envs) for name in COUNTERS}
        # Where the last interval of each copy began, and where the present one has.
        self._begun: PoolState | None = None
        self._next: PoolState | None = None
        self._changes: ObservedChanges = ObservedChanges()
        self._is_first = np.zeros(n_envs, np.bool_)
        self._over_ns = np.full(n_envs, NEVER_NS)
        self._known_metrics: dict[int, dict[str, float]] = {}
        # Made with the first picture.
        self._painter: PoolPainter | None = None
        self._max_steps = task.settings.max_steps
        self._begin_at(is_real_time=False)
        queues = [f"server{number}.queue" for number in range(task.n_servers)]
        seen = [f"{agent}.{name}" for agent in self.agents for name in self.observation_labels]
        self.state_labels = seen + queues

    def make(self) -> Pool:
        """Return pools, which a shadow follows where a term of the reward compares with it."""
        task, made = self._task, self._make()
        can = made.capabilities
        self._check(can)
        if can.real_time and not self._is_real_time:
            made.close()
            self._begin_at(is_real_time=True)
            made = self._make()
        # Users whose answers come sooner send more: their flows are not those of the shadow.
        is_open = not task.scenario.workload.is_closed_loop
        self.reward = task.make_reward(can.shadows and is_open)
        self.term_names = tuple(self.reward.weights)
        if GAIN_OVER_SED in self.reward.weights:
            return ShadowedPool(made, self._make(record_limit=0), task.lead_in_rules)
        return made

    def bound(self, max_steps: int | None) -> bool:
        """Draw the traffic of the following episodes for so many steps; None for no limit."""
        is_new, self._max_steps = max_steps != self._max_steps, max_steps
        return is_new and self.running.capabilities.draws_ahead

    def opening(self) -> list[tuple[PoolCommands, int]]:
        """Return the rules: SED while traffic fills the pool, and then the task's."""
        task, lead_in_ns = self._task, self._lead_in_ns
        filling = [(PoolCommands(rules=task.lead_in_rules), lead_in_ns)] if lead_in_ns else []
        return [*filling, (PoolCommands(rules=task.rules, sampled=self._chosen), 0)]

    def begin(self, state: PoolState, mask: Mask) -> None:
        """Let the first interval of some copies begin, with equal weights."""
        self.restart(state, mask)
        self._is_first = self._is_first | mask
        self._weights = np.where(mask[:, None, None], 1.0, self._weights)
        self._last_actions = np.where(mask[:, None, None], self._idle, self._last_actions)
        self._over_ns = np.where(mask, NEVER_NS, self._over_ns)
        self._serving = np.where(mask[:, None], 1.0, self._serving)

    def decode(self, actions: Actions, fresh: Mask) -> PoolCommands:
        """Return the weights that actions ask for, and the servers in service."""
        weight_map, service, given = self._task.weight_map, self._task.service, self._read(actions)
        eligible = None
        if service is not None:
            given, self._serving, eligible = service.divided(given[:, 0])
            if np.count_nonzero(fresh):
                self._serving, eligible = self._serving.copy(), eligible | fresh[:, None]
                self._serving[fresh] = 1.0
            if not service.weighs:
                return PoolCommands(eligible=eligible)
        read = given.reshape(self._last_actions.shape)
        weights, units = weight_map.to_weights(read), weight_map.unit(read)
        if np.count_nonzero(fresh):
            weights[fresh] = 1.0
            units = np.where(fresh[:, None, None], self._idle, units)
        self._weights[:, self._at] = weights
        self._last_actions = units
        return PoolCommands(weights=self._weights, eligible=eligible)

    def restart(self, state: PoolState, mask: Mask) -> None:
        """Let the interval of some copies count from here on."""
        counted = counts(state)
        self._counts = {n: np.where(mask, counted[n], self._counts[n]) for n in COUNTERS}
        are_all = np.count_nonzero(mask) == self.n_envs
        self._next = state if are_all else where(mask, state, self._next)

    def observe(self, state: PoolState, mask: Mask | None) -> Seen:
        """Measure the interval."""
        task, chosen, before, begun = self._task, self._chosen, self._counts, self._next
        assert begun is not None
        if mask is not None:
            before = {n: np.where(mask, before[n], self._before[n]) for n in COUNTERS}
            begun = where(mask, begun, self._begun)
            state = where(mask, state, self._state)
        self._state, self._before, self._counts = state, before, counts(state)
        self._begun, self._next = begun, state
        self._known_metrics = {}
        interval = PoolInterval(begun, state, self._at, self._configured)
        observed = task.observation.observe(
            interval, self._last_actions, self._changes, self._is_first, mask
        )
        if task.observation.has_changes:
            self._is_first = self._is_first & (False if mask is None else ~mask)
        terms = self.reward.terms(LoadInputs(state, chosen, rate_per_s=task.rate_per_s))
        by_agent = {name: self._by_agent(values) for name, values in terms.items()}
        rows = observed.reshape(self.n_envs, task.n_agents, -1)
        if task.service is not None:
            rows = np.concatenate([rows, self._serving[:, None].astype(np.float32)], axis=2)
        return rows, by_agent

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval (`dcgym.tasks.balancing.measure`), each (E,)."""
        return interval_metrics(self.now, self._workers, self._before, self._counts)

    def finish(self, mask: Mask) -> None:
        """Let the flows of episodes that are over come to their end, if the settings ask for it."""
        if limit_ns := self._task.settings.drain_ns:
            over_ns = serve_out(self.running, mask, limit_ns, self.interval_ns)
            self._over_ns = np.where(mask, over_ns, self._over_ns)

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy, worked out once however many agents ask."""
        if env not in self._known_metrics:
            self._known_metrics[env] = super().metrics_of(env)
        return dict(self._known_metrics[env])

    def told(self) -> Told:
        """Return what is known of the servers, and the weights, (E, A, ...)."""
        shape = (self.n_envs, self._task.n_agents, -1)
        servers = server_info(self.now.seen, self._chosen, origin_ns=self.origin_ns)
        return {
            # Front ends of one agent follow on each other.
            "servers": {name: v.reshape(*shape, *v.shape[3:]) for name, v in servers.items()},
            "weights": self._weights[:, self._chosen].reshape(shape),
        }

    def told_to(self, env: int, agent: int) -> Info:
        """Return what an agent knows of the servers, and its weights."""
        per_agent = self._task.frontends_per_agent
        own = self._chosen[agent * per_agent : (agent + 1) * per_agent]
        servers = server_info(self.now.seen, own, env, origin_ns=self.origin_ns)
        servers["probe_time_s"] = servers["probe_time_s"].view(ValueArray)
        return {
            "servers": {name: v.reshape(-1, *v.shape[3:]) for name, v in servers.items()},
            "weights": self._weights[env, own].reshape(-1),
        }

    def state(self, env: int, seen: Observations) -> FloatArray:
        """Return what all agents see, and what no balancer does: the flows at each server."""
        queues = self.now.truth.queue[env] / STATE_SCALE
        return np.concatenate([seen.reshape(-1), queues / (queues + 1)])

    def origin_ns_of(self, env: int) -> int:
        """Return the time of the first observation."""
        return self.origin_ns

    def flow_records(self, env: int) -> Rows:
        """Return and forget the finished flows of a copy's episode, at most `record_limit`."""
        return self._of_episode(env, super().flow_records(env))

    def under_way(self, env: int) -> Rows:
        """Return the flows of a copy's episode that have not ended."""
        return self._of_episode(env, super().under_way(env))

    def _of_episode(self, env: int, flows: Rows) -> Rows:
        # What began before the first observation is nobody's doing.
        arrived_ns, over_ns = flows["arrival_ns"], self._over_ns[env] - self.origin_ns
        chosen: Rows = flows[
            (arrived_ns < over_ns) & (arrived_ns >= self._task.settings.warm_up_ns)
        ]
        return chosen

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have happened in a copy's episode."""
        return records_since(super().event_records(env), self.origin_ns)

    def render(self, env: int, caption: Caption) -> Picture | None:
        """Return a picture of the servers with their flows and weights."""
        if self._state is None:
            return None
        from dcgym.envs.render.pool import PoolPainter

        if self._painter is None:
            pool = self._task.scenario.pool
            names = [f"balancer {frontend_name(pool, number)}" for number in self._chosen]
            self._painter = PoolPainter(self._workers, names, self._subject())
        weights = self._weights[env, self._chosen]
        weights = weights * ~left_out(self._state.seen.eligible[env, self._chosen])
        return self._painter.draw(self._state.truth.queue[env], weights, caption)

    def _subject(self) -> str:
        scenario, count = self._task.scenario, len(self._chosen)
        what = "balancers" if len(scenario.pool.vips) == 1 else "front ends"
        return (
            f"{scenario.name}, {scenario.n_servers} servers, "
            f"{count} of {scenario.n_frontends} {what} controlled"
        )

    def _read(self, actions: Actions) -> npt.NDArray[np.generic]:
        """Return an action for each copy and agent, (E, A, ...)."""
        given = action_array(actions, (self.n_envs, len(self.agents)))
        shape = self._task.action_map.space.shape
        if given.shape != (self.n_envs, len(self.agents), *(shape or ())):
            raise ConfigError("action", actions, f"finite numbers of shape {shape}")
        return given

    def _by_agent(self, values: FloatArray) -> FloatArray:
        """Turn values of controlled front ends, (E, M), into those of agents, (E, A)."""
        per_agent = self._task.frontends_per_agent
        if per_agent == 1:
            return values
        mean: FloatArray = values.reshape(self.n_envs, -1, per_agent).mean(axis=2)
        return mean

    def _check(self, can: Capabilities) -> None:
        """Refuse what the backend cannot do, and a drain that nobody says when to begin."""
        task, settings = self._task, self._task.settings
        check_in("rule", settings.rule, can.rules)
        for rule in task.rules:
            check_in("others", rule, can.rules)
        if settings.lead_in_ns(can.real_time) and not {*task.lead_in_rules} <= {*can.rules}:
            raise ConfigError("lead_in", settings.lead_in, "0s: the balancers cannot follow sed")
        check_scenario(can, task.scenario)
        if task.service is not None and not can.eligible:
            allowed = "weights: this backend takes no servers in and out of service"
            raise ConfigError("decides", "eligible", allowed)
        if settings.drain_ns and settings.max_steps is None:
            raise ConfigError(
                "drain", settings.drain, "0s, or with max_steps, after which to drain"
            )

    def _begin_at(self, is_real_time: bool) -> None:
        """Note when the first observation is: after the lead-in and one interval."""
        self._is_real_time = is_real_time
        self._lead_in_ns = self._task.settings.lead_in_ns(is_real_time)
        self.origin_ns = self._lead_in_ns + self.interval_ns
        self.scenario = self._task.scenario.put_off(self.origin_ns)

    def _make(self, record_limit: int | None = None) -> Pool:
        settings = self._task.settings
        needs = PoolNeeds(
            scenario=self.scenario,
            record_limit=settings.record_limit if record_limit is None else record_limit,
            warm_up_ns=settings.warm_up_ns + self.origin_ns,
            horizon_ns=self.origin_ns + traffic_ns(self._task, self._max_steps),
        )
        return make_copies(POOLS, self._spec, needs, self.n_envs, self.scenario)
