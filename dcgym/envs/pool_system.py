"""Tasks on a server pool, bound to one: many copies, one or several agents.

Shapes: E copies, B balancers, M of them controlled, A agents, N servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Pool
from dcgym.backends.records import EVENT_RECORDS, FIDELITY, FLOWS, OPEN_FLOWS, Fidelity, Record
from dcgym.backends.registry import POOLS
from dcgym.envs.backends import draws_ahead, find_object, make_copies
from dcgym.envs.infos import ValueArray
from dcgym.envs.pool_checks import check_pool
from dcgym.envs.pool_flows import serve_out, traffic_ns
from dcgym.envs.scenario_time import records_since, rows_since
from dcgym.envs.system import Actions, BoundTask, Caption, FloatArray, Info, Mask, TimeArray, Told
from dcgym.errors import ConfigError
from dcgym.tasks.balancing.measure import (
    COUNTERS,
    balancer_index,
    counts,
    interval_metrics,
    load_inputs,
    measurements,
    server_info,
)
from dcgym.tasks.balancing.protocol import NOTHING, PoolCommands, PoolState
from dcgym.tasks.balancing.rewards import GAIN_OVER_SED
from dcgym.tasks.balancing.settings import PoolSettings
from dcgym.tasks.balancing.task import BalancingTask
from dcgym.tasks.common.actions import action_array

if TYPE_CHECKING:
    from dcgym.envs.render.pool import PoolPainter

__all__ = ["PoolSystem", "pool_system"]

Settings = TypeVar("Settings", bound=PoolSettings)

NEVER_NS = np.iinfo(np.int64).max
# Flows at a server that its part of the state calls one half.
STATE_SCALE = 8.0


def pool_system(
    make_task: Callable[[Settings], BalancingTask], settings: Settings, n_envs: int = 1
) -> PoolSystem:
    """Bind a task to copies of a pool; nothing is started.

    Args:
        make_task: Makes the task.
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    return PoolSystem(make_task(settings), find_object(settings.backend), n_envs)


class PoolSystem(BoundTask[BalancingTask, Pool, PoolState]):
    """A task on copies of a pool.

    Args:
        task: The task.
        backend: Name of a backend, or a function that makes a `Pool` of a scenario and a number
            of copies.
        n_envs: Number of copies.

    Attributes:
        reward: Terms and weights.
        origin_ns: The first observation of an episode on the pool's clock: time 0 of the scenario.
        scenario: The task's on the pool's clock.

    Raises:
        ConfigError: The backend cannot do what the task asks for.
    """

    is_measured_at_once = False

    def __init__(self, task: BalancingTask, backend: object, n_envs: int = 1) -> None:
        super().__init__(task, backend, n_envs, task.interval_ns)
        groups = task.scenario.server_groups
        self._workers = np.array([group.workers for group in groups], np.float64)
        self._chosen = list(task.controlled)
        self._at = balancer_index(self._chosen)
        shape = (n_envs, len(self._chosen), task.n_servers)
        idle = task.weight_map.from_weights(np.ones(task.n_servers))
        self._idle = np.broadcast_to(idle, shape)
        self._last_actions = task.weight_map.unit(self._idle).copy()
        self._weights = np.ones((n_envs, task.scenario.balancers, task.n_servers))
        self._before = self._counts = {name: np.zeros(n_envs) for name in COUNTERS}
        self._over_ns = np.full(n_envs, NEVER_NS)
        self._known_metrics: dict[int, dict[str, float]] = {}
        # Made with the first picture.
        self._painter: PoolPainter | None = None
        self._max_steps = task.settings.max_steps
        # Unknown names and options must fail here, not in the first episode.
        self._begin_at(is_real_time=False)
        self._backend = self._make()
        self.capabilities = can = self._backend.capabilities
        check_pool(task, can)
        if can.real_time:
            self._backend.close()
            self._begin_at(is_real_time=True)
            self._backend = self._make()
        # Users whose answers come sooner send more: their flows are not those of the shadow.
        is_open = not task.scenario.workload.is_closed_loop
        self.reward = task.make_reward(can.shadows and is_open)
        # The same flows under SED, for the term that compares.
        self._shadow = self._make_shadow()
        self.terms = {name: np.zeros((n_envs, task.n_agents)) for name in self.reward.weights}
        queues = [f"server{number}.queue" for number in range(task.n_servers)]
        seen = [f"{agent}.{name}" for agent in self.agents for name in self.observation_labels]
        self.state_labels = seen + queues

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Empty the copies that have a seed, and fill them; the next interval measures them."""
        if self._backend is None:
            self._backend = self._make()
            self._shadow = self._make_shadow()
        main = self._backend
        drawn, mask = self._begin_seeds(seeds, self._task.settings.paths)
        for pool in filter(None, (main, self._shadow)):
            self._lead_in(pool, drawn, mask)
        main.apply(PoolCommands(rules=self._task.rules, sampled=self._chosen), mask)
        counted = dict.fromkeys(COUNTERS, np.zeros(self.n_envs))
        if self._lead_in_ns:
            counted = counts(main.read())
        self._set_counts(counted, mask)
        # Not the time that real clocks show by now: the first observation is one interval later.
        self.read_ns = np.where(mask, self._lead_in_ns, self.read_ns)
        self._over_ns = np.where(mask, NEVER_NS, self._over_ns)

    def _set_counts(self, counted: Mapping[str, FloatArray], mask: Mask) -> None:
        """Let the next interval of some copies count from here on."""
        self._counts = {n: np.where(mask, counted[n], self._counts[n]) for n in COUNTERS}

    def bound(self, max_steps: int | None) -> None:
        """Draw the traffic of the following episodes for so many steps; None for no limit."""
        if max_steps != self._max_steps:
            self._max_steps = max_steps
            if draws_ahead(self._spec, POOLS):
                self.close()

    def _lead_in(self, pool: Pool, seeds: Sequence[int | None], mask: Mask) -> None:
        """Empty some copies and let traffic fill them under SED."""
        pool.reset(seeds)
        if self._lead_in_ns or pool is self._shadow:
            # Nobody reads what the shadow's balancers sample.
            sampled = () if pool is self._shadow else None
            pool.apply(PoolCommands(rules=self._task.lead_in_rules, sampled=sampled), mask)
        if self._lead_in_ns:
            pool.advance(np.where(mask, self._lead_in_ns, 0))

    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Set the weights; those of fresh copies are equal, whatever the action.

        Args:
            actions: An action for each copy and agent; None changes fresh copies alone.
            fresh: Copies that have just begun, shape (E,).
        """
        task = self._task
        read = self._idle if actions is None else self._read(actions)
        weights = task.weight_map.to_weights(read)
        units = task.weight_map.unit(read)
        if actions is None:
            # The others keep what they have.
            weights[~fresh] = self._weights[~fresh][:, self._chosen]
            units = np.where(fresh[:, None, None], units, self._last_actions)
        elif np.count_nonzero(fresh):
            weights[fresh] = 1.0
            units = np.where(fresh[:, None, None], task.weight_map.unit(self._idle), units)
        self._weights[:, self._at] = weights
        self._last_actions = units
        commands = PoolCommands(weights=self._weights)
        return self.running.apply(commands, None if actions is not None else fresh)

    def restart(self, mask: Mask) -> None:
        """Begin the present interval anew in some copies."""
        state = self.running.read()
        self._set_counts(counts(state), mask)
        self.read_ns = np.where(mask, state.time_ns, self.read_ns)

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time."""
        if self._shadow is not None:
            self._shadow.advance(until_ns)
        return self.running.advance(until_ns)

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""
        return self.running.apply(NOTHING)

    def measure(self, mask: Mask) -> None:
        """Read the state of all copies: those that have not gone on are as they were."""
        task, chosen = self._task, self._chosen
        state = self._state = self.running.read()
        self.read_ns = state.time_ns
        observed = task.observation.observe(measurements(state.seen, chosen), self._last_actions)
        shadow = None if self._shadow is None else self._shadow.read().seen.ongoing
        inputs = load_inputs(state, chosen, rate_per_s=task.rate_per_s, shadow=shadow)
        terms = self.reward.terms(inputs)
        self.observations = observed.reshape(self.n_envs, task.n_agents, -1)
        self.terms = {name: self._by_agent(values) for name, values in terms.items()}
        before = self._counts
        if np.count_nonzero(mask) < self.n_envs:
            before = {n: np.where(mask, before[n], self._before[n]) for n in COUNTERS}
        self._before = before
        self._counts = counts(state)
        self._known_metrics = {}

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval (`dcgym.tasks.balancing.measure`), each (E,)."""
        return interval_metrics(self.now, self._workers, self._before, self._counts)

    def finish(self, mask: Mask) -> None:
        """Let the flows of episodes that are over come to their end, if the settings ask for it."""
        limit_ns = self._task.settings.drain_ns
        if limit_ns:
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
            # Balancers of one agent follow on each other.
            "servers": {name: v.reshape(*shape, *v.shape[3:]) for name, v in servers.items()},
            "weights": self._weights[:, self._chosen].reshape(shape),
        }

    def told_to(self, env: int, agent: int) -> Info:
        """Return what an agent knows of the servers, and its weights."""
        per_agent = self._task.balancers_per_agent
        own = self._chosen[agent * per_agent : (agent + 1) * per_agent]
        servers = server_info(self.now.seen, own, env, origin_ns=self.origin_ns)
        servers["probe_time_s"] = servers["probe_time_s"].view(ValueArray)
        return {
            "servers": {name: v.reshape(-1, *v.shape[3:]) for name, v in servers.items()},
            "weights": self._weights[env, own].reshape(-1),
        }

    def state(self, env: int) -> FloatArray:
        """Return what all agents see, and what no balancer does: the flows at each server."""
        queues = self.now.truth.queue[env] / STATE_SCALE
        return np.concatenate([self.observations[env].reshape(-1), queues / (queues + 1)])

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return and forget the finished flows of a copy's episode, at most `record_limit`."""
        return self._of_episode(env, self.running.records(FLOWS, env))

    def under_way(self, env: int) -> npt.NDArray[Any]:
        """Return the flows of a copy that have not ended, as `flow_records` does the others."""
        return self._of_episode(env, self.running.records(OPEN_FLOWS, env))

    def _of_episode(self, env: int, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # What began before the first observation is nobody's doing.
        flows = rows_since(rows[rows["arrival_ns"] < self._over_ns[env]], self.origin_ns)
        return flows[flows["arrival_ns"] >= self._task.settings.warm_up_ns]

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have happened in a copy's episode."""
        return records_since(self.running.records(EVENT_RECORDS, env), self.origin_ns)

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""
        return self.running.records(FIDELITY, env)

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of the servers with their flows and weights."""
        if self._state is None:
            return None
        from dcgym.envs.render.pool import PoolPainter

        if self._painter is None:
            names = [f"balancer {balancer}" for balancer in self._chosen]
            self._painter = PoolPainter(self._workers, names, self._subject())
        weights = self._weights[env, self._chosen]
        return self._painter.draw(self._state.truth.queue[env], weights, caption)

    def close(self) -> None:
        """End the pool; the next episode makes a new one."""
        super().close()
        shadow, self._shadow = self._shadow, None
        if shadow is not None:
            shadow.close()

    def _subject(self) -> str:
        scenario, count = self._task.scenario, len(self._chosen)
        return (
            f"{scenario.name}, {scenario.n_servers} servers, "
            f"{count} of {scenario.balancers} balancers controlled"
        )

    def _read(self, actions: Actions) -> npt.NDArray[Any]:
        """Return an action for each copy and controlled balancer, (E, M, N)."""
        given = action_array(actions, (self.n_envs, len(self.agents)))
        shape = self._task.action_map.space.shape
        if given.shape != (self.n_envs, len(self.agents), *(shape or ())):
            raise ConfigError("action", actions, f"finite numbers of shape {shape}")
        return given.reshape(self.n_envs, len(self._chosen), self._task.n_servers)

    def _by_agent(self, values: FloatArray) -> FloatArray:
        """Turn values of controlled balancers, (E, M), into those of agents, (E, A)."""
        per_agent = self._task.balancers_per_agent
        if per_agent == 1:
            return values
        mean: FloatArray = values.reshape(self.n_envs, -1, per_agent).mean(axis=2)
        return mean

    def _make_shadow(self) -> Pool | None:
        return self._make(record_limit=0) if GAIN_OVER_SED in self.reward.weights else None

    def _begin_at(self, is_real_time: bool) -> None:
        """Note when the first observation is: after the lead-in and one interval."""
        self._lead_in_ns = self._task.settings.lead_in_ns(is_real_time)
        self.origin_ns = self._lead_in_ns + self.interval_ns
        self.scenario = self._task.scenario.put_off(self.origin_ns)

    def _make(self, record_limit: int | None = None) -> Pool:
        settings = self._task.settings
        wanted = {
            "record_limit": settings.record_limit if record_limit is None else record_limit,
            "warm_up_ns": settings.warm_up_ns + self.origin_ns,
            "horizon_ns": self.origin_ns + traffic_ns(self._task, self._max_steps),
        }
        defaults = {**wanted, "record_limit": 0, "warm_up_ns": self.origin_ns}
        return make_copies(POOLS, self._spec, self.scenario, self.n_envs, wanted, defaults)
