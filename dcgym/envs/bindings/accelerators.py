"""Weights of devices, bound to a pool of servers with accelerators: many copies, one agent.

Shapes: E copies, N servers, D devices of the server that has most of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import DevicePool
from dcgym.backends.needs import HORIZON_NS, DeviceNeeds
from dcgym.backends.records import Record
from dcgym.backends.registry import DEVICE_POOLS, make_backend
from dcgym.config import check_range
from dcgym.envs.backends import make_copies
from dcgym.envs.bindings.base import Binding
from dcgym.envs.bindings.best_weights import BestWeights
from dcgym.envs.bindings.scenario_time import records_since
from dcgym.envs.values import Actions, Caption, FloatArray, Mask, Picture, Seen, Told
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.accelerators.protocol import NOTHING, DeviceCommands, DeviceEpisode, DeviceState
from dcgym.tasks.accelerators.task import AcceleratorTask
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.events import put_off
from dcgym.tasks.common.states import where

if TYPE_CHECKING:
    from dcgym.envs.render.pool import PoolPainter

__all__ = ["AcceleratorBinding"]

NS_PER_MS = 1e6
SIMULATION = "simulation"


class AcceleratorBinding(Binding[AcceleratorTask, DeviceEpisode, DeviceCommands, DeviceState]):
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

    nothing = NOTHING
    is_measured_at_once = False

    def __init__(self, task: AcceleratorTask, backend: object, n_envs: int = 1) -> None:
        settings = task.settings
        super().__init__(task, n_envs, settings.interval_ns)
        self._spec, self.paths, self.settle_ns = backend, settings.paths, settings.settle_ns
        self.term_names = tuple(task.reward.weights)
        self.weights = np.tile(task.first_weights, (n_envs, 1))
        self.rates_per_s = np.full(n_envs, task.pool.rate_per_s)
        # When what is observed next began, and how long it took what was observed last.
        self._from_ns = np.zeros(n_envs, np.int64)
        self._measured_s = np.full(n_envs, self.interval_ns / 1e9)
        # Requests of each copy's episode that have come to an end.
        self._ended = np.zeros(n_envs, np.int64)
        # Where Algorithm 1 has come to a result, (E,).
        self._is_settled = np.zeros(n_envs, np.bool_)
        self._best = BestWeights(task, self._make_other) if settings.oracle else None
        self._best_level = np.zeros(n_envs, np.int64)
        self._best_p99_s = np.full(n_envs, np.nan)
        # The first observation is of an interval, too.
        self.origin_ns = self.interval_ns
        self._max_steps = settings.max_steps
        # Made with the first picture.
        self._painter: PoolPainter | None = None

    def make(self) -> DevicePool:
        """Return pools."""
        pool = self._task.pool
        planned = pool.changed(events=put_off(pool.events, self.origin_ns))
        made = self._make_of(planned, self.n_envs, self._task.settings.record_limit)
        self._is_real_time = made.capabilities.real_time
        return made

    def bound(self, max_steps: int | None) -> bool:
        """Draw the requests of the following episodes for so many steps; None for no limit."""
        is_new, self._max_steps = max_steps != self._max_steps, max_steps
        return is_new and self.running.capabilities.draws_ahead

    def episodes(
        self, seeds: Sequence[int | None], options: Mapping[str, object]
    ) -> list[DeviceEpisode | None]:
        """Return the seeds, and requests a second, which the option ``rate`` replaces."""
        rate = options.get("rate")
        if rate is not None:
            rate = check_range("options.rate", rate, 0.001, 1e9)
        episodes = [
            None if seed is None else DeviceEpisode(seed, rate or self._task.draw_rate(seed))
            for seed in seeds
        ]
        # New arrays: infos show them.
        self.rates_per_s = self.rates_per_s.copy()
        self._best_level, self._best_p99_s = self._best_level.copy(), self._best_p99_s.copy()
        for env, one in enumerate(episodes):
            if one is not None and one.rate_per_s is not None:
                self.rates_per_s[env] = one.rate_per_s
                if self._best is not None:
                    best = self._best.find(one.rate_per_s)
                    self._best_level[env], self._best_p99_s[env] = best
        return episodes

    def opening(self) -> list[tuple[DeviceCommands, int]]:
        """Return the rules, and the weights that the scenario begins with."""
        task, settings = self._task, self._task.settings
        rules = settings.device_rule, settings.server_rule
        return [(DeviceCommands(*rules, task.first_weights), 0)]

    def begin(self, state: DeviceState, mask: Mask) -> None:
        """Let the first interval of some copies begin."""
        self.weights = np.where(mask[:, None], self._task.first_weights, self.weights)
        self._from_ns = np.where(mask, 0, self._from_ns)
        self._ended = np.where(mask, 0, self._ended)

    def decode(self, actions: Actions, fresh: Mask) -> DeviceCommands:
        """Return the weights that actions lead to."""
        given = action_array(actions, (self.n_envs, 1))
        given = given.reshape(self.n_envs, *given.shape[2:])
        changed = self._task.weights_of(given, self.weights)
        self.weights = np.where(fresh[:, None], self.weights, changed)
        return DeviceCommands(device_weights=self.weights[:, None, :])

    def restart(self, state: DeviceState, mask: Mask) -> None:
        """Let what is observed next begin now."""
        self._ended = self._ended + np.where(mask, state.ended, 0)
        self._from_ns = np.where(mask, state.time_ns, self._from_ns)

    def observe(self, state: DeviceState, mask: Mask | None) -> Seen:
        """Measure the interval, without its beginning."""
        task, from_ns = self._task, self._from_ns
        chosen = np.ones(self.n_envs, np.bool_) if mask is None else mask
        self.restart(state, chosen)
        self._measured_s = np.where(chosen, (self._from_ns - from_ns) / 1e9, self._measured_s)
        self._state = state if mask is None else where(mask, state, self._state)
        load = self._rates() / task.pool.server_capacity_per_s
        terms = task.reward.terms(task.inputs(self._state, self.weights, self._best_p99_s))
        self._is_settled = self._settles(terms)
        seen = task.observation(self._state, load).astype(np.float32)[:, None]
        return seen, {name: values[:, None] for name, values in terms.items()}

    def _settles(self, terms: Mapping[str, FloatArray]) -> Mask:
        """Tell where Algorithm 1 has come to a result, (E,)."""
        weight = self._task.reward.weights.get("p4wise")
        if not (self._task.settings.is_terminal and weight):
            return np.zeros(self.n_envs, np.bool_)
        settled: Mask = np.abs(terms["p4wise"] / weight) == self._task.settings.max_reward
        return settled

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
            "inherited": now.inherited.astype(np.float64),
            "pcc_violations": now.pcc_violations.astype(np.float64),
        }

    def finished(self) -> Mask:
        """Tell where Algorithm 1 has come to a result, or the last request of a batch has ended."""
        if (requests := self._task.pool.requests) is None:
            return self._is_settled
        return self._is_settled | (self._ended >= requests)

    def told(self) -> Told:
        """Return the weights and the utilisation, and the best weights where they are known."""
        told: dict[str, npt.NDArray[np.generic]] = {
            "weights": self.weights,
            "utilisation": self.now.utilisation.mean(axis=1),
        }
        if self._best is not None:
            told["best_weights"] = self._best_level
            told["best_p99_ms"] = self._best_p99_s * 1e3
        return {name: values[:, None] for name, values in told.items()}

    def origin_ns_of(self, env: int) -> int:
        """Return the time of the first observation; what the interval before it has is below 0."""
        return self.origin_ns

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have happened in a copy's episode."""
        return records_since(super().event_records(env), self.origin_ns)

    def render(self, env: int, caption: Caption) -> Picture | None:
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

    def _make_other(self, pool: AcceleratorPool, n_envs: int) -> DevicePool:
        if self._is_real_time:
            # A search of minutes of real time, and of many copies: in the twin instead.
            return make_backend(DEVICE_POOLS, SIMULATION, DeviceNeeds(pool=pool), n_envs)
        return self._make_of(pool, n_envs, 0)

    def _horizon_ns(self) -> int:
        """Return how much traffic an episode needs: with a late interval."""
        if self._max_steps is None:
            return self.origin_ns + HORIZON_NS
        return self.origin_ns + (self._max_steps + 1) * self.interval_ns

    def _make_of(self, pool: AcceleratorPool, n_envs: int, limit: int) -> DevicePool:
        needs = DeviceNeeds(pool=pool, record_limit=limit, horizon_ns=self._horizon_ns())
        return make_copies(DEVICE_POOLS, self._spec, needs, n_envs, pool)
