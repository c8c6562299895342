"""The order of a step, for every task, backend, number of copies and number of agents.

An interval begins when the action that belongs to it is in force, and ends at an absolute deadline.
An action that comes later than `LATE_FRACTION` of the interval begins an interval of its own:
learners pause for seconds to train, and that time belongs to no action. Neither does the time that
a picture takes: the action after it begins an interval of its own too, and is not late by it. This
is the only place that knows that rule, and the gaps between intervals that it leaves.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import ANEW
from dcgym.backends.fidelity import judge
from dcgym.backends.records import Fidelity
from dcgym.config import check_keys
from dcgym.envs.system import System
from dcgym.envs.values import Actions, Caption, FloatArray, Info, Mask, Observations, TimeArray
from dcgym.errors import NONE_RUNS, BackendError, ConfigError, DcgymError, needs_reset

__all__ = ["LATE_FRACTION", "STEP_TIMES", "Session"]

LATE_FRACTION = 0.2

STEP_TIMES = {
    "time_s": "time since the first observation",
    "interval_us": "length of the interval that was measured",
    "gap_us": "time before it in no step: before a late action, or while a picture was drawn",
    "action_latency_us": "from the collection of the last observation to the action in force",
    "observation_age_us": "age of what this observation shows when `step` returns it",
    "deadline_overrun_us": "how late the environment woke",
    "is_restarted": "the action came late, and the interval began with its acknowledgement",
    "steps": "steps since the first observation",
}
"""What every info of a step holds beside a task's own, and what it means (`Session.info`)."""

_WAS_CUT = "the last call ended amid a step ({}), and its episode with it"

# Of the clock: end of the interval on the backend's clock, the same since the first observation,
# and the steps since then. One array, as NumPy takes as long for one of them as for all three.
DEADLINE, ELAPSED, STEPS = range(3)

_Result = TypeVar("_Result")


class Session:
    """Episodes of a system, stepped together.

    Args:
        system: The task on its backend.

    Attributes:
        system: The same.
        is_running: Whether every copy is in an episode.
    """

    # What is said where none is.
    _why = NONE_RUNS

    def __init__(self, system: System) -> None:
        n_envs = system.n_envs
        self.system = system
        self.is_running = False
        self._interval_ns = system.interval_ns
        is_timed = system.capabilities.real_time
        # How late an action may come; 0 where none can.
        self._limit_ns = LATE_FRACTION * self._interval_ns if is_timed else 0.0
        self._all = np.ones(n_envs, np.bool_)
        # Rows `DEADLINE`, `ELAPSED` and `STEPS` of each copy, and what a step adds to them.
        self._clock = np.zeros((3, n_envs), np.int64)
        one_step = np.array([[self._interval_ns], [self._interval_ns], [1]], np.int64)
        self._one_step = one_step.repeat(n_envs, axis=1)
        self._fresh = self._all.copy()
        # Whether any of them is: nearly every step can go without asking the copies.
        self._has_fresh = True
        self._latency_ns = np.zeros(n_envs, np.int64)
        self._overrun_ns = np.zeros(n_envs, np.int64)
        self._age_ns = np.zeros(n_envs, np.int64)
        # Length of the last interval, and the time before it that belongs to no step.
        self._whole_ns = np.full(n_envs, self._interval_ns, np.int64)
        self._length_ns = np.zeros(n_envs, np.int64)
        self._gap_ns = np.zeros(n_envs, np.int64)
        self._is_late = np.zeros(n_envs, np.bool_)
        # Since the first observation: time in no step, and actions that came late.
        self._gaps_ns = np.zeros(n_envs, np.int64)
        self._late_steps = np.zeros(n_envs, np.int64)
        # Time that pictures took since the last interval.
        self._drawn_ns = np.zeros(n_envs, np.int64)
        self._finished = np.zeros(n_envs, np.bool_)

    def __deepcopy__(self, memo: dict[int, object]) -> Session:
        """Return a second session that goes on from here, with a backend of its own.

        Raises:
            ConfigError: The backend cannot be copied.
        """
        if not self.system.capabilities.copyable:
            backend = self.system.backend
            name = "the backend" if backend is None else backend.name
            raise ConfigError("backend", name, "one whose episodes can be copied: simulation")
        made = memo[id(self)] = copy.copy(self)
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
        return made

    @property
    def n_envs(self) -> int:
        """Number of copies."""
        return self.system.n_envs

    @property
    def observations(self) -> Observations:
        """What the agents see, shape (E, A, n)."""
        return self.system.observations

    def rewards(self) -> FloatArray:
        """Return the reward of each agent, shape (E, A)."""
        terms = self.system.terms
        if len(terms) == 1:
            # No sum of lists; never the term itself, which infos show.
            [term] = terms.values()
            return term + 0.0
        shape = (self.system.n_envs, len(self.system.agents))
        total: FloatArray = sum(terms.values(), np.zeros(shape))
        return total

    def finished(self) -> Mask:
        """Tell which copies have nothing left to do, (E,); none of them before its first action."""
        return self._finished

    def begin(
        self,
        generators: Sequence[np.random.Generator | None],
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Begin an episode in each copy that has a generator here.

        The first observation is there after the next `advance`, which runs no interval in copies
        that are measured at once.

        Args:
            generators: What each copy's seed is drawn from; None leaves a copy as it is.
            options: Options of the task.

        Raises:
            ConfigError: Unknown option.
            BackendError: The backend did not come up, or only some copies begin where none runs.
        """
        system = self.system
        if not self.is_running and None in generators:
            raise needs_reset(self._why)
        given = check_keys({} if options is None else options, system.options, "options")
        seeds = [None if one is None else system.draw_seed(one) for one in generators]
        self._guarded(lambda: system.begin(seeds, given))
        begun = np.array([seed is not None for seed in seeds])
        self._fresh |= begun
        self._has_fresh = bool(self._fresh.any())
        self._clock[DEADLINE] = np.where(begun, system.read_ns, self._clock[DEADLINE])
        self._clock[ELAPSED:, begun] = 0
        for counts in (
            self._latency_ns,
            self._overrun_ns,
            self._age_ns,
            self._gap_ns,
            self._gaps_ns,
            self._late_steps,
            self._drawn_ns,
        ):
            counts[begun] = 0
        self._length_ns = np.where(begun, 0, self._length_ns)
        self._is_late, self._finished = self._is_late & ~begun, self._finished & ~begun
        self.is_running = True

    def advance(self, actions: Actions | None = None) -> None:
        """Put the actions in force, let one interval pass, and measure what it led to.

        Copies that have just begun take no action. Where they are measured only after an interval,
        they run it as an episode begins; else their first observation is already there.

        Args:
            actions: An action for each copy and agent; None only where all copies have just begun.

        Raises:
            ConfigError: An action is not allowed.
            BackendError: No episode is running, or the backend failed; the next `begin` makes a
                new one.
        """
        if not self.is_running:
            raise needs_reset(self._why)
        if actions is not None and not self._has_fresh and self.system.has_whole_steps:
            return self._step_whole(actions)
        runs = self._all
        if self._has_fresh and self.system.is_measured_at_once:
            runs = ~self._fresh
        if runs is self._all or np.count_nonzero(runs):
            self._guarded(lambda: self._run(actions, runs))
        if self._has_fresh:
            self._fresh, self._has_fresh = ~self._all, False

    def settle(self) -> None:
        """Let copies that have just begun have their first observation; the others stay.

        Raises:
            BackendError: No episode is running, or the backend failed.
        """
        if self._has_fresh and not self.system.is_measured_at_once:
            fresh = self._fresh
            self._guarded(lambda: self._run(None, fresh))
        self._fresh, self._has_fresh = ~self._all, False

    def finish(self, over: Mask) -> None:
        """Do what the settings ask for at the end of episodes, once all of them is told.

        Args:
            over: Copies whose episodes are over, shape (E,).

        Raises:
            BackendError: The backend failed.
        """
        if over.any():
            self._guarded(lambda: self.system.finish(over))

    def _run(self, actions: Actions | None, runs: Mask) -> None:
        # A system may write its times over.
        system, begun_ns = self.system, self.system.read_ns.copy()
        acted_ns = system.act(actions, self._fresh)
        self._latency_ns = acted_ns - begun_ns
        if self._limit_ns:
            begun_ns = self._begin_interval(begun_ns, acted_ns, runs)
        passed = self._one_step if runs is self._all else np.where(runs, self._one_step, 0)
        self._clock = self._clock + passed
        if self._interval_ns:
            self._overrun_ns = system.advance(self._clock[DEADLINE])
        system.measure(runs)
        length_ns = system.read_ns - begun_ns
        is_all = runs is self._all
        self._length_ns = length_ns if is_all else np.where(runs, length_ns, self._length_ns)
        if not self._interval_ns:
            # Steps end when they end; the deadline stays where the episode began.
            since_ns = system.read_ns - self._clock[DEADLINE]
            self._clock[ELAPSED] = np.where(runs, since_ns, self._clock[ELAPSED])
        finished = system.finished()
        self._finished = finished if is_all else np.where(runs, finished, self._finished)
        # Last: whatever was done until here has aged the observation.
        self._age_ns = system.now_ns() - system.read_ns
        if self._has_fresh:
            # An action that nobody gave has no latency; time counts from the first observation.
            self._latency_ns[self._fresh] = 0
            self._clock[ELAPSED:, self._fresh] = 0
            self._finished = self._finished & ~self._fresh
            self._overrun_ns, self._age_ns = self._overrun_ns * runs, self._age_ns * runs

    def _step_whole(self, actions: Actions) -> None:
        """As `_run`, of all copies in one call: nothing is late, and observations do not age."""
        clock = self._clock + self._one_step
        try:
            self._finished = self.system.whole_step(actions, clock[DEADLINE])
        except BaseException as error:
            self._note(error)
            raise
        self._clock, self._length_ns = clock, self._whole_ns

    def _begin_interval(self, seen_ns: TimeArray, acted_ns: TimeArray, runs: Mask) -> TimeArray:
        """Let an interval begin with its action, if that came late or after a picture.

        Args:
            seen_ns: When the last interval of each copy ended, (E,).
            acted_ns: When the actions were in force, (E,).
            runs: Copies that go on, (E,).

        Returns:
            When the present interval of each copy began, (E,).
        """
        late_ns = acted_ns - self._clock[DEADLINE]
        # Copies that have just begun take no action: the scenario's clock says when theirs ends.
        acts = runs & ~self._fresh
        self._is_late = acts & (late_ns - self._drawn_ns > self._limit_ns)
        # A picture may be done before traffic begins, with which the first interval does.
        is_new = self._is_late | (acts & (self._drawn_ns > 0) & (late_ns > 0))
        self._gap_ns = np.where(runs, 0, self._gap_ns)
        self._drawn_ns = np.where(runs, 0, self._drawn_ns)
        if not np.count_nonzero(is_new):
            return seen_ns
        self._clock[:STEPS] += np.where(is_new, late_ns, 0)
        self.system.restart(is_new)
        begun_ns: TimeArray = np.where(is_new, self.system.read_ns, seen_ns)
        gap_ns: TimeArray = begun_ns - seen_ns
        self._gap_ns = self._gap_ns + gap_ns
        self._gaps_ns = self._gaps_ns + gap_ns
        self._late_steps = self._late_steps + self._is_late
        return begun_ns

    def time_s(self, env: int) -> float:
        """Return when the last interval of a copy was to end, since its first observation."""
        return float(self._clock[ELAPSED, env]) / 1e9

    def steps(self, env: int) -> int:
        """Return the number of steps since the first observation of a copy's episode."""
        return int(self._clock[STEPS, env])

    def render(self, env: int, title: str) -> npt.NDArray[np.uint8] | None:
        """Return a picture of a copy, and take the time it took out of the clock.

        Args:
            env: Number of the copy.
            title: Name of the environment.

        Returns:
            RGB, rows x columns x 3; None where no episode is running.
        """
        if not self.is_running:
            return None
        steps = self.steps(env)
        rewards = tuple(self.rewards()[env].tolist()) if steps else ()
        begun_ns = self.system.now_ns()
        picture = self.system.render(env, Caption(title, self.time_s(env), steps, rewards))
        self._drawn_ns = self._drawn_ns + (self.system.now_ns() - begun_ns)
        return picture

    def info(self, env: int, agent: int) -> Info:
        """Return what an agent is told beside its observation.

        Args:
            env: Number of the copy.
            agent: Number of the agent.
        """
        return {
            **self.system.info(env, agent),
            "time_s": self._clock.item(ELAPSED, env) / 1e9,
            "interval_us": self._length_ns.item(env) / 1e3,
            "gap_us": self._gap_ns.item(env) / 1e3,
            "action_latency_us": max(self._latency_ns.item(env), 0) / 1e3,
            "observation_age_us": self._age_ns.item(env) / 1e3,
            "deadline_overrun_us": max(self._overrun_ns.item(env), 0) / 1e3,
            "is_restarted": self._is_late.item(env),
            "steps": self.steps(env),
        }

    def infos(self) -> Info:
        """Return what `info` says of every copy and agent, as arrays of shape (E, A, ...)."""
        times = {
            "time_s": self._clock[ELAPSED] / 1e9,
            "interval_us": self._length_ns / 1e3,
            "gap_us": self._gap_ns / 1e3,
            "action_latency_us": np.maximum(self._latency_ns, 0) / 1e3,
            "observation_age_us": self._age_ns / 1e3,
            "deadline_overrun_us": np.maximum(self._overrun_ns, 0) / 1e3,
            "is_restarted": self._is_late,
            "steps": self._clock[STEPS],
        }
        n_agents = len(self.system.agents)
        return self.system.infos() | {
            name: np.repeat(value[:, None], n_agents, axis=1) for name, value in times.items()
        }

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed: its backend, and its steps.

        Args:
            env: Number of the copy.
        """
        found = self.system.fidelity(env)
        steps, time_ns = self.steps(env), int(self._clock[ELAPSED, env])
        if not self._limit_ns or not steps:
            return found
        figures = {
            "late_share": float(self._late_steps[env]) / steps,
            "gap_share": float(self._gaps_ns[env]) / time_ns,
        }
        return judge(figures, found)

    def close(self) -> None:
        """End the backend; a second call does nothing, and `begin` starts anew."""
        self._stop(NONE_RUNS)
        self.system.close()

    def _stop(self, why: str) -> None:
        self.is_running, self._why = False, why
        self._fresh[:] = self._has_fresh = True

    def _guarded(self, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except BaseException as error:
            self._note(error)
            raise

    def _note(self, error: BaseException) -> None:
        # A backend that failed is dropped, so that the next episode builds a new one. What has
        # nothing to do with the work, such as Ctrl-C, may leave copies anywhere in a step.
        if isinstance(error, BackendError):
            error.advice = error.advice or ANEW
            self.close()
        elif not isinstance(error, DcgymError):
            self._stop(_WAS_CUT.format(type(error).__name__))
