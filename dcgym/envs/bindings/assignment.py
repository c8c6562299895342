"""One decision a job, bound to a pool whose jobs wait for it: many copies, one agent.

Shapes: E copies, N servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Pool
from dcgym.backends.needs import PoolNeeds
from dcgym.backends.records import SUMMARY
from dcgym.backends.registry import POOLS
from dcgym.config import check_in
from dcgym.envs.backends import make_copies
from dcgym.envs.bindings.base import Binding
from dcgym.envs.bindings.pool_flows import check_scenario
from dcgym.envs.values import (
    Actions,
    Caption,
    FloatArray,
    Mask,
    Observations,
    Picture,
    Rows,
    Seen,
    Told,
)
from dcgym.errors import ConfigError
from dcgym.tasks.assignment.observation import JobView
from dcgym.tasks.assignment.rewards import JobInputs
from dcgym.tasks.assignment.task import JobAssignmentTask
from dcgym.tasks.balancing.protocol import NOTHING, HeldFlows, PoolCommands, PoolState
from dcgym.tasks.balancing.records import NOBODY
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.states import where
from dcgym.units import NS_PER_S

if TYPE_CHECKING:
    from dcgym.envs.render.pool import PoolPainter

__all__ = ["AssignmentBinding"]

NS_PER_MS = 1e6
# For servers that never finish the last jobs.
LONGEST_STEP_NS = 30 * 24 * 3600 * NS_PER_S


class AssignmentBinding(Binding[JobAssignmentTask, int, PoolCommands, PoolState]):
    """Job assignment on copies of a pool.

    Steps have no fixed length: each ends with the arrival of the next job.

    Args:
        task: The task.
        backend: Name of a backend, or a function that makes a `Pool` of a scenario and a number
            of copies.
        n_envs: Number of copies.

    Raises:
        ConfigError: The backend cannot do what the task asks for.
    """

    nothing = NOTHING
    longest_step_ns = LONGEST_STEP_NS
    # What the agent sees of the state.
    _view: JobView

    def __init__(self, task: JobAssignmentTask, backend: object, n_envs: int = 1) -> None:
        super().__init__(task, n_envs, interval_ns=0)
        self._spec, self.paths = backend, task.settings.paths
        self.term_names = tuple(task.reward.weights)
        self.state_labels = [f"server{number}.jobs" for number in range(task.n_servers)]
        # Since the reset, and in the last step.
        self._totals = self._steps = dict[str, npt.NDArray[np.int64]]()
        # Made with the first picture.
        self._painter: PoolPainter | None = None

    def make(self) -> Pool:
        """Return pools whose flows can wait."""
        settings = self._task.settings
        scenario = self._task.scenario
        needs = PoolNeeds(scenario=scenario, record_limit=settings.record_limit)
        made = make_copies(POOLS, self._spec, needs, self.n_envs, scenario)
        if not made.capabilities.assignments:
            allowed = "simulation: there each job waits for the agent; real connections do not"
            raise ConfigError("backend", made.name, allowed)
        if settings.rule is not None:
            check_in("rule", settings.rule, made.capabilities.rules)
        check_scenario(made.capabilities, scenario)
        return made

    def opening(self) -> list[tuple[PoolCommands, int]]:
        """Return that flows wait, and the time until the first one has come."""
        settings = self._task.settings
        # The agent is told what the servers know, and nothing that balancers sample.
        first = PoolCommands(held_flows=settings.jobs or 0, rules=settings.rule, sampled=())
        return [(first, LONGEST_STEP_NS)]

    def begin(self, state: PoolState, mask: Mask) -> Seen:
        """Show the first job of some copies, to which no step has led."""
        now = _totals(state)
        if np.count_nonzero(mask) == self.n_envs:
            self._totals = self._steps = now
            return self.observe(state, None)
        self._totals = {n: np.where(mask, now[n], last) for n, last in self._totals.items()}
        return self.observe(state, mask)

    def decode(self, actions: Actions, fresh: Mask) -> PoolCommands:
        """Return the servers of the jobs that wait."""
        given = action_array(actions, (self.n_envs, 1))
        servers = self._task.servers_of(given.reshape(self.n_envs, *given.shape[2:]))
        if self._task.settings.rule is not None:
            servers = np.full(self.n_envs, -1)
        return PoolCommands(assignments=servers)

    def observe(self, state: PoolState, mask: Mask | None) -> Seen:
        """Work out what the step led to."""
        if mask is not None:
            state = where(mask, state, self._state)
        self._state, self._view = state, _view(state)
        last, totals = self._totals, _totals(state)
        self._totals = totals
        passed = {n: total - last[n] for n, total in totals.items()}
        if mask is not None:
            passed = {n: np.where(mask, now, self._steps[n]) for n, now in passed.items()}
        self._steps = passed
        inputs = JobInputs(
            passed["flow_time_ns"] / NS_PER_MS,
            passed["ended"].astype(np.float64),
            passed["failed"].astype(np.float64),
        )
        terms = self._task.reward.terms(inputs)
        seen = self._task.observation(self._view)[:, None]
        return seen, {name: values[:, None] for name, values in terms.items()}

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the step, one number a copy, each of shape (E,)."""
        held, steps = self._held, self._steps
        return {
            "jobs": held.under_way.astype(np.float64),
            "completed": steps["ended"].astype(np.float64),
            "sojourn_ms": steps["ended_after_ns"] / NS_PER_MS,
            "failed": held.failed.astype(np.float64),
        }

    @property
    def masks(self) -> Callable[[], Mask] | None:
        """What returns the servers that take new jobs, where the action names one."""
        return self._masks if self._task.settings.action == "server" else None

    def _masks(self) -> Mask:
        # All of them where none does.
        eligible = self.now.seen.eligible[:, 0]
        masks: Mask = eligible | ~eligible.any(axis=1, keepdims=True)
        return masks[:, None]

    def finished(self) -> Mask:
        """Tell in which copies no job waits, and none will come."""
        return ~self._held.waits

    def told(self) -> Told:
        """Return what is known of the servers and of the job that waits."""
        now, view = self.now, self._view
        servers = {
            "jobs": now.truth.assigned,
            "waiting_ms": view.waiting_ms,
            "in_service_ms": view.in_service_ms,
            "remaining_ms": view.remaining_ms,
            "eligible": now.seen.eligible[:, 0],
        }
        found: Told = {
            "servers": {name: values[:, None] for name, values in servers.items()},
            "size_ms": view.size_ms[:, None],
        }
        if self.masks is None:
            return found
        # As Gymnasium's spaces sample under them.
        return {**found, "action_mask": self._masks().astype(np.int8)}

    def state(self, env: int, seen: Observations) -> FloatArray:
        """Return the jobs at each server, as the observation "counts" shows them."""
        jobs = self.now.truth.assigned[env].astype(np.float64)
        state: FloatArray = jobs / (jobs + 8.0)
        return state

    def origin_ns_of(self, env: int) -> int:
        """Return the time of the first job."""
        return int(self._held.begun_ns[env])

    def under_way(self, env: int) -> Rows:
        """Return the jobs of a copy that have a server and have not ended."""
        jobs = super().under_way(env)
        placed: Rows = jobs[jobs["server"] != NOBODY]
        return placed

    def render(self, env: int, caption: Caption) -> Picture | None:
        """Return a picture of the servers with their jobs, and of those that each has got."""
        if self._state is None:
            return None
        from dcgym.envs.render.pool import PoolPainter, PoolWords

        task = self._task
        if self._painter is None:
            groups = task.scenario.server_groups
            workers = np.array([group.workers for group in groups], np.float64)
            subject = f"{task.scenario.name}, {task.n_servers} servers"
            words = PoolWords("jobs placed since the episode began, %", "share of the jobs")
            self._painter = PoolPainter(workers, ["dispatcher"], subject, words)
        # Before the first job they are alike.
        placed = np.maximum([self.running.records(SUMMARY, env).server_flows], 1e-9)
        return self._painter.draw(self._state.truth.assigned[env], placed, caption)

    @property
    def _held(self) -> HeldFlows:
        return _held_of(self.now)


def _held_of(state: PoolState) -> HeldFlows:
    # The pool has been told to hold them.
    assert state.held is not None
    return state.held


def _totals(state: PoolState) -> dict[str, npt.NDArray[np.int64]]:
    """Return what the pool counts since the reset."""
    held = _held_of(state)
    return {
        "flow_time_ns": held.flow_time_ns,
        "ended": state.truth.ended,
        "ended_after_ns": state.truth.ended_after_ns,
        "failed": held.failed,
    }


def _view(state: PoolState) -> JobView:
    truth, held = state.truth, _held_of(state)
    return JobView(
        jobs=truth.assigned.astype(np.float64),
        waiting_ms=held.waiting_ns / NS_PER_MS,
        in_service_ms=held.in_service_ns / NS_PER_MS,
        remaining_ms=truth.remaining_ns / NS_PER_MS,
        size_ms=held.demand_ns / NS_PER_MS,
    )
