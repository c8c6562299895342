"""Tasks on a network, bound to one: many copies, one agent each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Capabilities, Network, is_backend, made_by
from dcgym.backends.ensemble import networks
from dcgym.backends.records import ENDED_FLOWS
from dcgym.backends.registry import NETWORKS
from dcgym.config import check_int
from dcgym.envs.backends import find_object, make_copies, topology_of
from dcgym.envs.bindings.base import Binding
from dcgym.envs.bindings.scenario_time import rows_since
from dcgym.envs.values import (
    Actions,
    Caption,
    FloatArray,
    Info,
    Mask,
    Picture,
    Rows,
    Seen,
    TimeArray,
    Told,
)
from dcgym.errors import ConfigError, needs_reset
from dcgym.monitors import StateWords
from dcgym.tasks.common.states import where
from dcgym.tasks.network.activity import Activity
from dcgym.tasks.network.compiled import CompiledRuns
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.tasks.network.meter import Measured, Meter, Traffic
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands, NetworkState
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.network.task import NetworkTask
from dcgym.topologies import Topology
from dcgym.traffic.plans.applications import AppPlan

if TYPE_CHECKING:
    from dcgym.envs.render.network import NetworkPainter
    from dcgym.envs.render.rows import Rows as Bars

__all__ = ["NetworkBinding", "make_tasks"]

Settings = TypeVar("Settings", bound=NetworkSettings)
Task = TypeVar("Task", bound=NetworkTask)


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
    backend = find_object(settings.backend)
    given = topology_of(backend)
    n_envs = check_int("num_envs", n_envs, 1, None if given is None else 1)
    first = make_task(settings, given)
    return [first, *(first.another() for _ in range(n_envs - 1))], backend


class NetworkBinding(Binding[NetworkTask, NetworkEpisode, NetworkCommands, NetworkState]):
    """Copies of a task on a network.

    Args:
        tasks: The task of each copy, all on the same topology.
        backend: Name of a backend, a network, or a function that makes one of a topology.

    Raises:
        ConfigError: The backend cannot do what the tasks ask for.
    """

    nothing = NOTHING
    _can: Capabilities

    def __init__(self, tasks: Sequence[NetworkTask], backend: object) -> None:
        first = tasks[0]
        super().__init__(first, len(tasks), first.interval_ns)
        self.tasks, self._spec = tuple(tasks), backend
        self._meter = Meter(
            first, StateWords(len(first.topology.switch_ports), len(first.topology.hosts))
        )
        # What episodes begin with, and what is in force, of each decision, (E, n) each.
        self._initial = [np.tile(one.initial, (self.n_envs, 1)) for one in first.decisions]
        self._values = self._initial
        self._traffic = Traffic(np.zeros(self.n_envs))
        self._measured: Measured | None = None
        # The first observation of each copy's episode, when its traffic begins.
        self._begun_ns = np.zeros(self.n_envs, np.int64)
        self._told_events = [0] * self.n_envs
        self._new_events = np.zeros(self.n_envs, np.int64)
        # Made with the first picture.
        self._painter: NetworkPainter | None = None
        # The same as the backend, where native code can run whole steps.
        self._runs: CompiledRuns | None = None

    def make(self) -> Network:
        """Return networks."""
        spec, first = self._spec, self.tasks[0]
        if isinstance(spec, str):
            wanted, defaults = first.backend_options(), first.default_options()
            made = make_copies(NETWORKS, spec, first.topology, self.n_envs, wanted, defaults)
        else:
            kind = "a Network of a topology; or a Network"
            maker = (lambda _: spec) if is_backend(spec) else spec
            made = networks(self.n_envs, lambda: made_by(maker, kind, first.topology))
        self._can = can = made.capabilities
        self._check(first)
        # To find that out takes longer than a whole step.
        self._runs = made if isinstance(made, CompiledRuns) else None
        runs = self._runs is not None and not can.real_time and self._meter.can_run
        self.has_whole_steps = runs and self.interval_ns > 0
        return made

    def task(self, env: int = 0) -> NetworkTask:
        """Return the task of a copy."""
        return self.tasks[env]

    def episodes(
        self, seeds: Sequence[int | None], options: Mapping[str, Any]
    ) -> list[NetworkEpisode | None]:
        """Return the episodes that the tasks draw."""
        episodes = [
            None if seed is None else task.begin(seed, options)
            for task, seed in zip(self.tasks, seeds, strict=True)
        ]
        for task, episode in zip(self.tasks, episodes, strict=True):
            if episode is not None:
                self._check(task)
        return episodes

    def opening(self) -> list[tuple[NetworkCommands, int]]:
        """Return what episodes begin with."""
        return [(self._task.commands(self._initial), 0)]

    def begin(self, state: NetworkState, mask: Mask) -> Seen:
        """Measure the beginning of some episodes."""
        self._values = self._initial_where(mask)
        is_hidden = np.array([isinstance(task.plan, AppPlan) for task in self.tasks])
        deliverable_bps = np.array([task.deliverable_bps for task in self.tasks])
        self._traffic = Traffic(deliverable_bps, is_hidden if is_hidden.any() else None)
        self._meter.begin(state, mask)
        self._begun_ns = np.where(mask, self._meter.time_ns, self._begun_ns)
        for env in np.flatnonzero(mask).tolist():
            self._told_events[env] = 0
            self.tasks[env].activity = Activity(self, env, self.tasks[env].plan)
        return self._measure(mask, is_first=True)

    def decode(self, actions: Actions, fresh: Mask) -> NetworkCommands:
        """Return the limits and weights that actions ask for."""
        own = _of_network(actions)
        if np.count_nonzero(fresh):
            # Nobody reads those of copies that have just begun.
            others = np.flatnonzero(~fresh)
            values = self._initial_where(fresh)
            chosen = self._task.read([own[i] for i in others.tolist()])
            for both, read in zip(values, chosen, strict=True):
                both[others] = read
        else:
            values = self._task.read(own)
        self._values = values
        return self._task.commands(values)

    def whole_step(self, actions: Actions, until_ns: TimeArray) -> tuple[TimeArray, Seen]:
        """Take the actions, run each copy until its time, and measure it."""
        self._values = self._task.read(_of_network(actions))
        self.running.apply(self._task.commands(self._values))
        assert self._runs is not None
        measured = self._meter.run(self._runs, until_ns, self._values, self._traffic)
        return self._meter.time_ns, self._note(measured, None)

    def observe(self, state: NetworkState, mask: Mask | None) -> Seen:
        """Measure the interval."""
        self._meter.end(state, mask)
        return self._measure(mask)

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
        """Return the events of the interval, and what the decisions show of themselves, (E, 1)."""
        shown = {name: values[:, None] for name, values in self.measured.info.items()}
        return {"events": self._new_events[:, None].copy(), **shown}

    def told_to(self, env: int, agent: int) -> Info:
        """Return what `told` says of one copy, in a third of the time."""
        shown = {name: values[env] for name, values in self.measured.info.items()}
        return {"events": self._new_events.item(env), **shown}

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
        """Forget what was measured, and the networks."""
        self._measured = self._runs = None

    def _drawn_bars(self) -> list[Bars]:
        """Return what stands beside a picture: the decisions."""
        from dcgym.envs.render.rows import make_rows

        return [make_rows(self._task.topology, decision) for decision in self._task.decisions]

    def _drawn_values(self, env: int) -> list[FloatArray]:
        """Return the values of these bars, 0 to 1 each."""
        return [values[env] for values in self._values]

    def _initial_where(self, mask: Mask) -> list[FloatArray]:
        """Return what is in force, and in some copies what episodes begin with."""
        pairs = zip(self._initial, self._values, strict=True)
        return [where(mask, initial, own) for initial, own in pairs]

    def _measure(self, mask: Mask | None, *, is_first: bool = False) -> Seen:
        measured = self._meter.measure(
            self._values, self._traffic, measured=mask, is_first=is_first
        )
        return self._note(measured, mask)

    def _note(self, measured: Measured, mask: Mask | None) -> Seen:
        # Made anew with each measurement: nobody else holds its arrays.
        self._measured = measured
        if self._task.events:
            self._count_events(mask)
        terms = {name: term[:, None] for name, term in measured.terms.items()}
        return measured.observation[:, None], terms

    def _count_events(self, mask: Mask | None) -> None:
        for env in range(self.n_envs) if mask is None else np.flatnonzero(mask).tolist():
            told, count = self._told_events[env], len(self.event_records(env))
            self._new_events[env], self._told_events[env] = count - told, count

    def _check(self, task: NetworkTask) -> None:
        """Refuse what the backend cannot do."""
        can = self._can
        if task.events and not can.events:
            field = list(task.settings.events)
            raise ConfigError("events", field, "none, with a backend that knows no events")
        if isinstance(task.plan, AppPlan) and not can.applications:
            allowed = "flows, with a backend that runs no apps"
            raise ConfigError("traffic", task.plan.name, allowed)
        if task.features.has_flow_matrix and not can.flow_matrix:
            raise ConfigError("features", "flow_matrix", "a backend that measures a flow matrix")
        if task.probes.pairs and not can.probes:
            raise ConfigError("probes", list(task.probes.pairs), "none, with this backend")
        rule = task.settings.backend_options().get("path_rule", "ecmp")
        if rule not in can.path_rules:
            raise ConfigError("path_rule", rule, f"one of {', '.join(can.path_rules)}, here")
        if can.largest_hosts is not None:
            check_int("topology hosts", len(task.topology.hosts), 1, can.largest_hosts)


def _of_network(actions: Actions) -> Sequence[Any] | npt.NDArray[Any]:
    """Return the action of the one agent of each copy."""
    return actions[:, 0] if isinstance(actions, np.ndarray) else [one[0] for one in actions]
