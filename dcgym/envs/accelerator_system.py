"""Weights of devices, bound to a pool of servers with accelerators: many copies, one agent.

Shapes: E copies, N servers, D devices of the server that has most of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import DevicePool
from dcgym.backends.records import EVENT_RECORDS, FIDELITY, FLOWS, OPEN_FLOWS, Fidelity, Record
from dcgym.backends.registry import DEVICE_POOLS, make_backend
from dcgym.config import check_range
from dcgym.envs.backends import draws_ahead, find_object, make_copies
from dcgym.envs.best_weights import BestWeights
from dcgym.envs.scenario_time import records_since, rows_since
from dcgym.envs.system import Actions, BoundTask, Caption, FloatArray, Mask, TimeArray, Told
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.accelerators.protocol import NOTHING, DeviceCommands, DeviceEpisode, DeviceState
from dcgym.tasks.accelerators.settings import AcceleratorBalancingSettings
from dcgym.tasks.accelerators.task import AcceleratorTask, accelerator_balancing
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.events import put_off

if TYPE_CHECKING:
    from dcgym.envs.render.pool import PoolPainter

__all__ = ["AcceleratorSystem", "accelerator_system"]

NS_PER_MS = 1e6
SIMULATION = "simulation"
DEFAULT_HORIZON_NS = 600 * 10**9


def accelerator_system(
    settings: AcceleratorBalancingSettings, n_envs: int = 1
) -> AcceleratorSystem:
    """Bind the task to copies of a pool; nothing is started.

    Args:
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    return AcceleratorSystem(accelerator_balancing(settings), find_object(settings.backend), n_envs)


class AcceleratorSystem(BoundTask[AcceleratorTask, DevicePool, DeviceState]):
    """Accelerator balancing on copies of a pool.

    Args:
        task: The task.
        backend: Name of a backend, or a function that makes a `DevicePool` of an `AcceleratorPool`
            and a number of copies.
        n_envs: Number of copies.

    Attributes:
        weights: Weights of the positions in force, (E, D).
        rates_per_s: Requests a second of each copy's episode, (E,).
        origin_ns: The first observation of an episode on the pool's clock: time 0 of the scenario.

    Raises:
        ConfigError: The backend cannot do what the task asks for.
    """

    is_measured_at_once = False

    def __init__(self, task: AcceleratorTask, backend: object, n_envs: int = 1) -> None:
        super().__init__(task, backend, n_envs, task.settings.interval_ns)
        self.terms = {name: np.zeros((n_envs, 1)) for name in task.reward.weights}
        self.weights = np.tile(task.first_weights, (n_envs, 1))
        self.rates_per_s = np.full(n_envs, task.pool.rate_per_s)
        # When what is observed next began, and how long it took what was observed last.
        self._from_ns = np.zeros(n_envs, np.int64)
        self._measured_s = np.full(n_envs, self.interval_ns / 1e9)
        # Requests of each copy's episode that have come to an end.
        self._ended = np.zeros(n_envs, np.int64)
        self._best_level = np.zeros(n_envs, np.int64)
        self._best_p99_s = np.full(n_envs, np.nan)
        # The first observation is of an interval, too.
        self.origin_ns = self.interval_ns
        self._max_steps = task.settings.max_steps
        # Made with the first picture.
        self._painter: PoolPainter | None = None
        # Unknown names and options must fail here, not in the first episode.
        self._backend = self._make(n_envs)
        self.capabilities = self._backend.capabilities
        self._best = BestWeights(task, self._make_other) if task.settings.oracle else None

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Empty the copies that have a seed; their first interval has the scenario's weights.

        Args:
            seeds: Seeds of the copies; None leaves one as it is.
            options: ``rate``: requests a second, in the place of the drawn ones.
        """
        if self._backend is None:
            self._backend = self._make(self.n_envs)
        settings, task = self._task.settings, self._task
        rate = options.get("rate")
        if rate is not None:
            rate = check_range("options.rate", rate, 0.001, 1e9)
        drawn, mask = self._begin_seeds(seeds, settings.paths)
        episodes = [
            None if seed is None else DeviceEpisode(seed, rate or task.draw_rate(seed))
            for seed in drawn
        ]
        self.rates_per_s = self.rates_per_s.copy()
        self.rates_per_s[mask] = [one.rate_per_s for one in episodes if one is not None]
        # New arrays: infos show them.
        self.weights = np.where(mask[:, None], task.first_weights, self.weights)
        self._backend.reset(episodes)
        rules = settings.device_rule, settings.server_rule
        self._backend.apply(DeviceCommands(*rules, self.weights[:, None, :]), mask)
        self.read_ns = np.where(mask, 0, self.read_ns)
        self._from_ns = np.where(mask, 0, self._from_ns)
        self._ended = np.where(mask, 0, self._ended)
        if self._best is not None:
            self._best_level, self._best_p99_s = self._best_level.copy(), self._best_p99_s.copy()
            for env in np.flatnonzero(mask):
                found = self._best.find(float(self.rates_per_s[env]))
                self._best_level[env], self._best_p99_s[env] = found

    def bound(self, max_steps: int | None) -> None:
        """Draw the requests of the following episodes for so many steps; None for no limit."""
        if max_steps != self._max_steps:
            self._max_steps = max_steps
            if draws_ahead(self._spec, DEVICE_POOLS):
                self.close()

    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Set the weights, but those of fresh copies.

        Args:
            actions: An action for each copy and agent.
            fresh: Copies that have just begun, shape (E,).
        """
        acted_ns = self.read_ns
        if actions is not None:
            given = action_array(actions, (self.n_envs, 1))
            given = given.reshape(self.n_envs, *given.shape[2:])
            changed = self._task.weights_of(given, self.weights)
            self.weights = np.where(fresh[:, None], self.weights, changed)
            commands = DeviceCommands(device_weights=self.weights[:, None, :])
            set_ns = self.running.apply(commands, ~fresh)
            acted_ns = np.where(fresh, acted_ns, set_ns)
        return acted_ns

    def restart(self, mask: Mask) -> None:
        """Begin the present interval anew in some copies."""
        self._observe(mask)
        self.read_ns = np.where(mask, self._from_ns, self.read_ns)

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, and forget the beginning of its interval."""
        pool, settle_ns = self.running, self._task.settings.settle_ns
        if settle_ns:
            moves = until_ns > self.now_ns()
            pool.advance(np.where(moves, until_ns - self.interval_ns + settle_ns, 0))
            self._observe(moves)
        return pool.advance(until_ns)

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""
        return self.running.apply(NOTHING)

    def measure(self, mask: Mask) -> None:
        """Read the state of some copies; the others are as they were."""
        from_ns = self._from_ns
        state = self._observe(mask)
        self._measured_s = np.where(mask, (self._from_ns - from_ns) / 1e9, self._measured_s)
        if self._state is not None and not mask.all():
            state = state.where(mask, self._state)
        self._state, self.read_ns = state, np.where(mask, state.time_ns, self.read_ns)
        task = self._task
        load = self._rates() / task.pool.server_capacity_per_s
        terms = task.reward.terms(task.inputs(state, self.weights, self._best_p99_s))
        self.observations = task.observation(state, load).astype(np.float32)[:, None]
        self.terms = {name: values[:, None] for name, values in terms.items()}

    def _observe(self, mask: Mask) -> DeviceState:
        state = self.running.read(mask)
        self._ended = self._ended + np.where(mask, state.ended, 0)
        self._from_ns = np.where(mask, state.time_ns, self._from_ns)
        return state

    def _rates(self) -> FloatArray:
        rates: FloatArray = self.now.arrivals / self._measured_s
        return rates

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval, one number a copy, each of shape (E,)."""
        now = self.now
        chosen = now.chosen.sum(axis=1)
        spread = np.where(now.present, now.utilisation, np.nan).reshape(self.n_envs, -1)
        return {
            "latency_ms_mean": now.latency_mean_ns / NS_PER_MS,
            "latency_ms_p50": now.latency_p50_ns / NS_PER_MS,
            "latency_ms_p99": now.latency_p99_ns / NS_PER_MS,
            "rate_per_s": self._rates(),
            "throughput_per_s": now.completed / self._measured_s,
            "failed": (now.dropped + now.lost).astype(np.float64),
            "failed_share": now.failed_share,
            "accelerator_share": chosen[:, 1:].sum(axis=1) / np.maximum(chosen.sum(axis=1), 1),
            "utilisation_spread": np.nanstd(spread, axis=1),
            "reports_per_s": now.reports / self._measured_s,
        }

    def finished(self) -> Mask:
        """Tell where Algorithm 1 has come to a result, or the last request of a batch has ended."""
        settings, requests = self._task.settings, self._task.pool.requests
        is_over: Mask = np.zeros(self.n_envs, np.bool_)
        if requests is not None:
            is_over = self._ended >= requests
        weight = self._task.reward.weights.get("p4wise")
        if settings.is_terminal and weight:
            is_over = is_over | (np.abs(self.terms["p4wise"][:, 0] / weight) == settings.max_reward)
        return is_over

    def told(self) -> Told:
        """Return the weights and the utilisation, and the best weights where they are known."""
        told: dict[str, npt.NDArray[Any]] = {
            "weights": self.weights,
            "utilisation": self.now.utilisation.mean(axis=1),
        }
        if self._best is not None:
            told["best_weights"] = self._best_level
            told["best_p99_ms"] = self._best_p99_s * 1e3
        return {name: values[:, None] for name, values in told.items()}

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return and forget the finished requests of a copy, at most `record_limit`.

        Times count from the first observation: those of the interval before it are below 0.
        """
        return rows_since(self.running.records(FLOWS, env), self.origin_ns)

    def under_way(self, env: int) -> npt.NDArray[Any]:
        """Return the requests of a copy that have not ended, as `flow_records` does the others."""
        return rows_since(self.running.records(OPEN_FLOWS, env), self.origin_ns)

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have happened in a copy's episode."""
        return records_since(self.running.records(EVENT_RECORDS, env), self.origin_ns)

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""
        return self.running.records(FIDELITY, env)

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of the device positions: mean queues over the servers, and weights."""
        if self._state is None:
            return None
        from dcgym.envs.render.pool import PoolPainter, PoolWords

        task = self._task
        if self._painter is None:
            devices = task.pool.groups[0].devices
            workers = np.ones(task.n_devices)
            workers[: len(devices)] = [device.workers for device in devices]
            words = PoolWords(
                action="action: share of the weights, %",
                share="weight over the sum of the weights",
                heading="requests at a device at the end of the interval, mean of the servers",
                unit="requests",
                place="device of a server; 0: its processors",
                workers="workers of the device",
            )
            subject = f"{task.pool.name}, {task.n_servers} servers"
            self._painter = PoolPainter(workers, task.agents, subject, words)
        queues = self._state.queue[env].mean(axis=0)
        return self._painter.draw(queues, self.weights[env : env + 1], caption)

    def _make(self, n_envs: int) -> DevicePool:
        pool = self._task.pool
        planned = pool.changed(events=put_off(pool.events, self.origin_ns))
        return self._make_of(planned, n_envs, self._task.settings.record_limit)

    def _make_other(self, pool: AcceleratorPool, n_envs: int) -> DevicePool:
        if self.capabilities.real_time:
            # A search of minutes of real time, and of many copies: in the twin instead.
            return make_backend(DEVICE_POOLS, SIMULATION, pool, n_envs)
        return self._make_of(pool, n_envs, 0)

    def _horizon_ns(self) -> int:
        """Return how much traffic an episode needs: with a late interval."""
        if self._max_steps is None:
            return self.origin_ns + DEFAULT_HORIZON_NS
        return self.origin_ns + (self._max_steps + 1) * self.interval_ns

    def _make_of(self, pool: AcceleratorPool, n_envs: int, limit: int) -> DevicePool:
        wanted = {"record_limit": limit, "horizon_ns": self._horizon_ns()}
        return make_copies(
            DEVICE_POOLS, self._spec, pool, n_envs, wanted, wanted | {"record_limit": 0}
        )
