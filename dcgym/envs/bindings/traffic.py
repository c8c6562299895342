"""Tasks on the traffic of a network, bound to one: what all of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dcgym.backends.base import Capabilities, Network, is_backend, made_by
from dcgym.backends.ensemble import networks
from dcgym.backends.needs import NetworkNeeds
from dcgym.backends.records import ENDED_FLOWS
from dcgym.backends.registry import NETWORKS
from dcgym.config import check_int
from dcgym.envs.backends import Named, make_copies, read_backend, topology_of
from dcgym.envs.bindings.base import Binding
from dcgym.envs.bindings.scenario_time import rows_since
from dcgym.envs.values import (
    Caption,
    FloatArray,
    Mask,
    Picture,
    Rows,
    Seen,
    TimeArray,
    Told,
)
from dcgym.errors import ConfigError, needs_reset
from dcgym.tasks.network.activity import Activity
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.meter import Measured, Meter, Traffic
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands, NetworkState
from dcgym.tasks.network.settings import TrafficSettings
from dcgym.tasks.network.traffic import TrafficTask
from dcgym.topologies import Topology
from dcgym.traffic import Plan
from dcgym.traffic.plans.applications import AppPlan

if TYPE_CHECKING:
    from dcgym.envs.render.network import NetworkPainter
    from dcgym.envs.render.rows import Rows as Bars

__all__ = ["TrafficBinding", "make_tasks"]

Settings = TypeVar("Settings", bound=TrafficSettings)
Task = TypeVar("Task", bound=TrafficTask)


def make_tasks(
    make_task: Callable[[Settings, Topology | None], Task], settings: Settings, n_envs: int
) -> tuple[list[Task], object]:
    """Return the tasks of some copies, and the backend that the settings name.

    Args:
        make_task: Makes the task of one copy.
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    backend = read_backend(settings.backend)
    given = topology_of(backend)
    n_envs = check_int("num_envs", n_envs, 1, None if given is None else 1)
    first = make_task(settings, given)
    return [first, *(first.another() for _ in range(n_envs - 1))], backend


class TrafficBinding(Binding[Task, NetworkEpisode, NetworkCommands, NetworkState]):
    """Copies of a network with traffic.

    Args:
        tasks: The task of each copy, all on the same topology.
        backend: What `read_backend` returned.
        meter: Measures the intervals.

    Raises:
        ConfigError: The backend cannot do what the tasks ask for.
    """

    nothing = NOTHING
    _can: Capabilities

    def __init__(self, tasks: Sequence[Task], backend: object, meter: Meter) -> None:
        first = tasks[0]
        super().__init__(first, len(tasks), first.interval_ns)
        self.tasks, self._spec, self._meter = tuple(tasks), backend, meter
        self._traffic = Traffic(np.zeros(self.n_envs))
        self._measured: Measured | None = None
        # The first observation of each copy's episode, when its traffic begins.
        self._begun_ns = np.zeros(self.n_envs, np.int64)
        self._told_events = [0] * self.n_envs
        self._new_events = np.zeros(self.n_envs, np.int64)
        # Made with the first picture.
        self._painter: NetworkPainter | None = None

    def make(self) -> Network:
        """Return networks."""
        spec, first = self._spec, self.tasks[0]
        if isinstance(spec, Named):
            made = make_copies(NETWORKS, spec, self._needs(first), self.n_envs)
        else:
            kind = "a Network of a topology; or a Network"
            maker = (lambda _: spec) if is_backend(spec) else spec
            made = networks(self.n_envs, lambda: made_by(maker, kind, first.topology))
        self._can = made.capabilities
        self._check(first)
        return made

    def task(self, env: int = 0) -> Task:
        """Return the task of a copy."""
        return self.tasks[env]

    def episodes(
        self, seeds: Sequence[int | None], options: Mapping[str, object]
    ) -> list[NetworkEpisode | None]:
        """Return the episodes that the tasks draw."""
        return [
            None if seed is None else task.begin(seed, options, self._check_plan)
            for task, seed in zip(self.tasks, seeds, strict=True)
        ]

    def begin(self, state: NetworkState, mask: Mask) -> Seen:
        """Measure the beginning of some episodes."""
        is_hidden = np.array([isinstance(task.plan, AppPlan) for task in self.tasks])
        deliverable_bps = np.array([task.deliverable_bps for task in self.tasks])
        self._traffic = Traffic(deliverable_bps, is_hidden if is_hidden.any() else None)
        self._meter.begin(state, mask)
        self._begun_ns = np.where(mask, self._meter.time_ns, self._begun_ns)
        for env in np.flatnonzero(mask).tolist():
            self._told_events[env] = 0
            self.tasks[env].activity = Activity(self, env, self.tasks[env].plan)
        return self.measure(mask, is_first=True)

    def observe(self, state: NetworkState, mask: Mask | None) -> Seen:
        """Measure the interval."""
        self._meter.end(state, mask)
        return self.measure(mask)

    @abstractmethod
    def measure(self, mask: Mask | None, *, is_first: bool = False) -> Seen:
        """Measure the intervals of the copies in a mask, (E,); of all for None.

        Args:
            mask: The copies.
            is_first: Whether their episodes begin.
        """

    def restart(self, state: NetworkState, mask: Mask) -> None:
        """Begin the present interval anew in some copies."""
        self._meter.restart(state, mask)

    @property
    def last_states(self) -> tuple[NetworkState, NetworkState]:
        """The copies when their last interval began, and when it ended; until the next step."""
        return self._meter.states

    @property
    def read_ns(self) -> TimeArray:
        """When the state of each copy was read, (E,)."""
        return self._meter.time_ns

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""
        return self.running.apply(NOTHING)

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval."""
        return self.measured.metrics

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy."""
        return self.measured.metrics_of(env)

    def finished(self) -> Mask:
        """Tell in which copies every flow of the plan has ended."""
        return self._meter.states[1].finished

    @property
    def measured(self) -> Measured:
        """What was measured last.

        Raises:
            BackendError: Nothing was since the networks began.
        """
        if self._measured is None:
            raise needs_reset()
        return self._measured

    def told(self) -> Told:
        """Return the events of the interval, (E, A)."""
        return {"events": self._new_events[:, None].repeat(len(self.agents), axis=1)}

    def origin_ns_of(self, env: int) -> int:
        """Return the time of the first observation."""
        return int(self._begun_ns[env])

    def flow_records(self, env: int) -> Rows:
        """Return the flows of a copy that have ended."""
        return rows_since(self.running.records(ENDED_FLOWS, env), self.origin_ns_of(env))

    def render(self, env: int, caption: Caption) -> Picture | None:
        """Return a picture of the network with load, queues and what is decided."""
        if self._measured is None:
            return None
        from dcgym.envs.render.network import NetworkPainter

        if self._painter is None:
            self._painter = NetworkPainter(self._task.topology, self._drawn_bars())
        interval = self._measured.interval.of(env)
        return self._painter.draw(interval, self._drawn_values(env), caption)

    def forget(self) -> None:
        """Forget what was measured."""
        self._measured = None

    @abstractmethod
    def _drawn_bars(self) -> list[Bars]:
        """Return what stands beside a picture."""

    @abstractmethod
    def _drawn_values(self, env: int) -> list[FloatArray]:
        """Return the values of these bars, 0 to 1 each."""

    def _note(self, measured: Measured, mask: Mask | None) -> None:
        """Keep what was measured in the copies of a mask; in all for None."""
        # Made anew with each measurement: nobody else holds its arrays.
        self._measured = measured
        if self._task.events:
            self._count_events(mask)

    def _count_events(self, mask: Mask | None) -> None:
        for env in range(self.n_envs) if mask is None else np.flatnonzero(mask).tolist():
            told, count = self._told_events[env], len(self.event_records(env))
            self._new_events[env], self._told_events[env] = count - told, count

    def _needs(self, task: Task) -> NetworkNeeds:
        """Return what a task needs of its network."""
        is_command = isinstance(task.plan, AppPlan)
        choice = task.settings.path_choice
        return NetworkNeeds(topology=task.topology, paths=choice, applications=is_command)

    def _check(self, task: Task) -> None:
        """Refuse what the backend cannot do."""
        can = self._can
        if task.events and not can.events:
            field = list(task.settings.events)
            allowed = "none, with a backend that knows no events; Open vSwitch's routes are static"
            raise ConfigError("events", field, allowed)
        rule = task.settings.path_choice.name
        if rule not in can.path_rules:
            raise ConfigError("path_rule", rule, f"one of {', '.join(can.path_rules)}, here")
        if can.largest_hosts is not None:
            check_int("topology hosts", len(task.topology.hosts), 1, can.largest_hosts)
        self._check_plan(task.plan)

    def _check_plan(self, plan: Plan) -> None:
        """Refuse a plan that the backend cannot run."""
        if isinstance(plan, AppPlan) and not self._can.applications:
            allowed = "flows, with a backend or a generator that runs no apps"
            raise ConfigError("traffic", plan.name, allowed)
