"""One decision a job, bound to a pool whose jobs wait for it: many copies, one agent.

Shapes: E copies, N servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Pool
from dcgym.backends.records import (
    EVENT_RECORDS,
    FIDELITY,
    FLOWS,
    OPEN_FLOWS,
    SUMMARY,
    Fidelity,
    Record,
)
from dcgym.backends.registry import POOLS
from dcgym.config import check_in
from dcgym.envs.backends import find_object, make_copies
from dcgym.envs.scenario_time import rows_since
from dcgym.envs.system import Actions, BoundTask, Caption, FloatArray, Mask, TimeArray, Told
from dcgym.errors import ConfigError
from dcgym.tasks.assignment.observation import JobView
from dcgym.tasks.assignment.rewards import JobInputs
from dcgym.tasks.assignment.settings import JobAssignmentSettings
from dcgym.tasks.assignment.task import JobAssignmentTask, job_assignment
from dcgym.tasks.balancing.protocol import NOTHING, HeldFlows, PoolCommands, PoolState
from dcgym.tasks.balancing.records import NOBODY
from dcgym.tasks.common.actions import action_array
from dcgym.units import NS_PER_S

if TYPE_CHECKING:
    from dcgym.envs.render.pool import PoolPainter

__all__ = ["AssignmentSystem", "assignment_system"]

NS_PER_MS = 1e6
# For servers that never finish the last jobs.
LONGEST_STEP_NS = 30 * 24 * 3600 * NS_PER_S


def assignment_system(settings: JobAssignmentSettings, n_envs: int = 1) -> AssignmentSystem:
    """Bind the task to copies of a pool; nothing is started.

    Args:
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed, or the backend cannot let jobs wait.
    """
    return AssignmentSystem(job_assignment(settings), find_object(settings.backend), n_envs)


class AssignmentSystem(BoundTask[JobAssignmentTask, Pool, PoolState]):
    """Job assignment on copies of a pool.

    Steps have no fixed length: `act` runs each copy to the arrival of its next job.

    Args:
        task: The task.
        backend: Name of a backend, or a function that makes a `Pool` of a scenario and a number
            of copies.
        n_envs: Number of copies.

    Raises:
        ConfigError: The backend cannot do what the task asks for.
    """

    # What the agent sees of the state.
    _view: JobView

    def __init__(self, task: JobAssignmentTask, backend: object, n_envs: int = 1) -> None:
        super().__init__(task, backend, n_envs, interval_ns=0)
        self.terms = {name: np.zeros((n_envs, 1)) for name in task.reward.weights}
        self.state_labels = [f"server{number}.jobs" for number in range(task.n_servers)]
        # Since the reset, and in the last step.
        self._totals = self._steps = dict[str, npt.NDArray[np.int64]]()
        # Made with the first picture.
        self._painter: PoolPainter | None = None
        # Unknown names and options must fail here, not in the first episode.
        self._backend = self._make()
        self.capabilities = self._backend.capabilities
        if not self.capabilities.assignments:
            allowed = "simulation: there each job waits for the agent; real connections do not"
            raise ConfigError("backend", self._backend.name, allowed)
        if task.settings.rule is not None:
            check_in("rule", task.settings.rule, self.capabilities.rules)

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Empty the copies that have a seed, and run them to their first job."""
        if self._backend is None:
            self._backend = self._make()
        settings, pool = self._task.settings, self._backend
        drawn, mask = self._begin_seeds(seeds, settings.paths)
        pool.reset(drawn)
        # The agent is told what the servers know, and nothing that balancers sample.
        first = PoolCommands(held_flows=settings.jobs or 0, rules=settings.rule, sampled=())
        pool.apply(first, mask)
        pool.advance(np.where(mask, LONGEST_STEP_NS, 0))
        self._read(mask, is_new=True)

    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Place the jobs that wait, but for those of fresh copies, and run to the next ones.

        Args:
            actions: An action for each copy and agent.
            fresh: Copies that have just begun, shape (E,).
        """
        if actions is None:
            raise ConfigError("action", None, "an action for each job")
        given = action_array(actions, (self.n_envs, 1))
        servers = self._task.servers_of(given.reshape(self.n_envs, *given.shape[2:]))
        if self._task.settings.rule is not None:
            servers = np.full(self.n_envs, -1)
        acted_ns = self.running.apply(PoolCommands(assignments=servers), ~fresh)
        self.running.advance(np.where(fresh, 0, acted_ns + LONGEST_STEP_NS))
        return acted_ns

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Do nothing: `act` has run every copy as far as it goes."""
        return np.zeros(self.n_envs, np.int64)

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""
        return self.running.apply(NOTHING)

    def measure(self, mask: Mask) -> None:
        """Read the state of some copies; the others are as they were."""
        self._read(mask, is_new=False)

    def _read(self, mask: Mask, is_new: bool) -> None:
        """Read the state, and what the step led to: nothing where an episode is new."""
        state = self._state = self.running.read()
        self.read_ns, self._view = state.time_ns, _view(state)
        last, totals = self._totals, _totals(state)
        self._totals = totals
        passed = {n: total - (totals if is_new else last)[n] for n, total in totals.items()}
        if np.count_nonzero(mask) < self.n_envs:
            passed = {n: np.where(mask, now, self._steps[n]) for n, now in passed.items()}
        self._steps = passed
        inputs = JobInputs(
            passed["flow_time_ns"] / NS_PER_MS,
            passed["ended"].astype(np.float64),
            passed["failed"].astype(np.float64),
        )
        terms = self._task.reward.terms(inputs)
        self.observations = self._task.observation(self._view)[:, None]
        self.terms = {name: values[:, None] for name, values in terms.items()}

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
        eligible = self.now.seen.eligible
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
            "eligible": now.seen.eligible,
        }
        found: Told = {
            "servers": {name: values[:, None] for name, values in servers.items()},
            "size_ms": view.size_ms[:, None],
        }
        if self.masks is None:
            return found
        # As Gymnasium's spaces sample under them.
        return {**found, "action_mask": self._masks().astype(np.int8)}

    def state(self, env: int) -> FloatArray:
        """Return the jobs at each server, as the observation "counts" shows them."""
        jobs = self.now.truth.assigned[env].astype(np.float64)
        state: FloatArray = jobs / (jobs + 8.0)
        return state

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return and forget the finished jobs of a copy, at most `record_limit`.

        Times count from the first observation, at the first job.
        """
        return rows_since(self.running.records(FLOWS, env), int(self._held.begun_ns[env]))

    def under_way(self, env: int) -> npt.NDArray[Any]:
        """Return the jobs of a copy that have a server and have not ended."""
        jobs = self.running.records(OPEN_FLOWS, env)
        return rows_since(jobs[jobs["server"] != NOBODY], int(self._held.begun_ns[env]))

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have happened in a copy's episode."""
        return self.running.records(EVENT_RECORDS, env)

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""
        return self.running.records(FIDELITY, env)

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
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

    def _make(self) -> Pool:
        wanted = {"record_limit": self._task.settings.record_limit}
        return make_copies(
            POOLS, self._spec, self._task.scenario, self.n_envs, wanted, {"record_limit": 0}
        )


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
