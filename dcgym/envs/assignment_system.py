"""One decision a job, bound to a pool whose jobs wait for it: many copies, one agent.

Shapes: E copies, N servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Pool, made_by
from dcgym.backends.records import (
    EVENT_RECORDS,
    FIDELITY,
    FLOWS,
    OPEN_FLOWS,
    SUMMARY,
    Fidelity,
    Record,
)
from dcgym.backends.registry import POOLS, make_pool
from dcgym.config import check_in, check_int
from dcgym.envs.backends import find_object, taken_options
from dcgym.envs.scenario_time import rows_since
from dcgym.envs.shared_task import SharedTask, drawn_seeds
from dcgym.envs.system import Actions, Caption, FloatArray, Info, Mask, TimeArray
from dcgym.errors import ConfigError, needs_reset
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


class AssignmentSystem(SharedTask[JobAssignmentTask]):
    """Job assignment on copies of a pool (`dcgym.envs.system.System`).

    Steps have no fixed length: `act` runs each copy to the arrival of its next job.

    Args:
        task: The task.
        backend: Name of a backend, or a function that makes a `Pool` of a scenario and a number
            of copies.
        n_envs: Number of copies.

    Attributes:
        seeds: The seed of each copy's episode, shape (E,).

    Raises:
        ConfigError: The backend cannot do what the task asks for.
    """

    is_measured_at_once = True
    interval_ns = 0
    # What the agent sees of the state.
    _view: JobView

    def __init__(self, task: JobAssignmentTask, backend: object, n_envs: int = 1) -> None:
        self._task, self._spec, self.n_envs = task, backend, check_int("num_envs", n_envs, 1)
        self.agents = task.agents
        self.action_space, self.observation_space = task.action_space, task.observation_space
        self.observations = np.zeros((n_envs, 1, *self.observation_space.shape), np.float32)
        self.terms: dict[str, FloatArray] = {
            name: np.zeros((n_envs, 1)) for name in task.reward.weights
        }
        self.read_ns = np.zeros(n_envs, np.int64)
        self.seeds = np.zeros(n_envs, np.uint64)
        self._state: PoolState | None = None
        # Since the reset, and in the last step.
        self._totals = self._steps = dict[str, npt.NDArray[np.int64]]()
        # Made with the first picture.
        self._painter: PoolPainter | None = None
        # Unknown names and options must fail here, not in the first episode.
        self._pool: Pool | None = self._make()
        self._capabilities = self._pool.capabilities
        if task.settings.rule is not None:
            check_in("rule", task.settings.rule, self._capabilities.rules)

    @property
    def backend(self) -> Pool | None:
        """The pool; None after `close` or a failure."""
        return self._pool

    @property
    def pool(self) -> Pool:
        """The pool of running episodes.

        Raises:
            BackendError: There is none.
        """
        if self._pool is None:
            raise needs_reset()
        return self._pool

    @property
    def state_labels(self) -> list[str]:
        """Name of each position of `state`."""
        return [f"server{number}.jobs" for number in range(self._task.n_servers)]

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Empty the copies that have a seed, and run them to their first job."""
        mask, drawn = drawn_seeds(seeds, self._task.settings.paths)
        if self._pool is None:
            self._pool = self._make()
        settings, pool = self._task.settings, self._pool
        self.seeds = np.where(mask, drawn, self.seeds)
        pool.reset(drawn, mask=mask)
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
        acted_ns = self.pool.apply(PoolCommands(assignments=servers), ~fresh)
        self.pool.advance(np.where(fresh, 0, acted_ns + LONGEST_STEP_NS))
        return acted_ns

    def restart(self, mask: Mask) -> None:
        """Do nothing: an action is never late where time waits."""

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Do nothing: `act` has run every copy as far as it goes."""
        return np.zeros(self.n_envs, np.int64)

    def now_ns(self) -> TimeArray:
        """Return the time of each copy."""
        return self.pool.apply(NOTHING)

    def measure(self, mask: Mask) -> None:
        """Read the state of some copies; the others are as they were."""
        self._read(mask, is_new=False)

    def _read(self, mask: Mask, is_new: bool) -> None:
        """Read the state, and what the step led to: nothing where an episode is new."""
        state = self._state = self.pool.read()
        self.read_ns, self._view = state.time_ns, _view(state)
        last, totals = self._totals, _totals(state)
        self._totals = totals
        passed = {n: total - (totals if is_new else last)[n] for n, total in totals.items()}
        if not mask.all():
            passed = {n: np.where(mask, now, self._steps[n]) for n, now in passed.items()}
        self._steps = passed
        self.observations = self._task.observation(self._view)[:, None]
        inputs = JobInputs(
            passed["flow_time_ns"] / NS_PER_MS,
            passed["ended"].astype(np.float64),
            passed["failed"].astype(np.float64),
        )
        terms = self._task.reward.terms(inputs)
        self.terms = {name: values[:, None] for name, values in terms.items()}

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the step, one number a copy, each of shape (E,)."""
        return {
            "jobs": self._held.under_way.astype(np.float64),
            "completed": self._steps["ended"].astype(np.float64),
            "sojourn_ms": self._steps["ended_after_ns"] / NS_PER_MS,
            "failed": self._held.failed.astype(np.float64),
        }

    @property
    def has_action_masks(self) -> bool:
        """Whether actions are numbers of servers, of which some may be gone."""
        return self._task.settings.action == "server"

    def action_masks(self) -> Mask:
        """Return which servers take new jobs, (E, 1, N); all of them where none does.

        Raises:
            BackendError: No episode is running.
        """
        eligible = self._now.seen.eligible
        masks: Mask = eligible | ~eligible.any(axis=1, keepdims=True)
        return masks[:, None]

    def _mask_infos(self) -> dict[str, npt.NDArray[np.int8]]:
        """Return the masks as Gymnasium's spaces sample under them, where there are any."""
        has_masks = self.has_action_masks
        return {"action_mask": self.action_masks().astype(np.int8)} if has_masks else {}

    def finish(self, mask: Mask) -> None:
        """Do nothing: the step of the last job has served all of them."""

    def finished(self) -> Mask:
        """Tell in which copies no job waits, and none will come."""
        return ~self._held.waits

    def info(self, env: int, agent: int) -> Info:
        """Return what an agent is told beside its observation."""
        return {
            "reward_terms": {name: float(values[env, 0]) for name, values in self.terms.items()},
            "metrics": {name: float(values[env]) for name, values in self.metrics().items()},
            "servers": {name: values[env] for name, values in self._servers().items()},
            "size_ms": float(self._view.size_ms[env]),
        } | {name: masks[env, 0] for name, masks in self._mask_infos().items()}

    def infos(self) -> Info:
        """Return what `info` says of every copy and agent, as arrays of shape (E, 1, ...)."""
        return {
            "reward_terms": dict(self.terms),
            "metrics": {name: values[:, None] for name, values in self.metrics().items()},
            "servers": {name: values[:, None] for name, values in self._servers().items()},
            "size_ms": self._view.size_ms[:, None],
        } | self._mask_infos()

    def state(self, env: int) -> FloatArray:
        """Return the jobs at each server, as the observation "counts" shows them."""
        jobs = self._now.truth.assigned[env].astype(np.float64)
        state: FloatArray = jobs / (jobs + 8.0)
        return state

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return and forget the finished jobs of a copy, at most `record_limit`.

        Times count from the first observation, at the first job.
        """
        return rows_since(self.pool.records(FLOWS, env), int(self._held.begun_ns[env]))

    def under_way(self, env: int) -> npt.NDArray[Any]:
        """Return the jobs of a copy that have a server and have not ended."""
        jobs = self.pool.records(OPEN_FLOWS, env)
        return rows_since(jobs[jobs["server"] != NOBODY], int(self._held.begun_ns[env]))

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have happened in a copy's episode."""
        return self.pool.records(EVENT_RECORDS, env)

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""
        return self.pool.records(FIDELITY, env)

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
        placed = np.maximum([self.pool.records(SUMMARY, env).server_flows], 1e-9)
        return self._painter.draw(self._state.truth.assigned[env], placed, caption)

    def close(self) -> None:
        """End the pool; the next episode makes a new one."""
        pool, self._pool = self._pool, None
        self._state = None
        if pool is not None:
            pool.close()

    def _servers(self) -> dict[str, npt.NDArray[Any]]:
        now, view = self._now, self._view
        return {
            "jobs": now.truth.assigned,
            "waiting_ms": view.waiting_ms,
            "in_service_ms": view.in_service_ms,
            "remaining_ms": view.remaining_ms,
            "eligible": now.seen.eligible,
        }

    @property
    def _now(self) -> PoolState:
        if self._state is None:
            raise needs_reset()
        return self._state

    @property
    def _held(self) -> HeldFlows:
        return _held_of(self._now)

    def _make(self) -> Pool:
        spec, scenario, settings = self._spec, self._task.scenario, self._task.settings
        if not isinstance(spec, str):
            kind = "a Pool of a scenario and a number"
            made: Pool = made_by(spec, kind, scenario, self.n_envs)
            _check_waits(made.name, made.capabilities)
            return made
        maker = POOLS.find(spec)
        _check_waits(spec, maker.capabilities)
        wanted = {"record_limit": settings.record_limit}
        options = taken_options(wanted, {"record_limit": 0}, maker.options)
        return make_pool(spec, scenario, self.n_envs, options)


def _check_waits(name: str, can: Capabilities) -> None:
    if not can.assignments:
        allowed = "simulation: there each job waits for the agent; real connections do not"
        raise ConfigError("backend", name, allowed)


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
