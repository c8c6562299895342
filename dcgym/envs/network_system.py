"""Tasks on a network, bound to one: many copies, one agent each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Network, is_backend, made_by
from dcgym.backends.ensemble import networks
from dcgym.backends.records import ENDED_FLOWS, EVENT_RECORDS, FIDELITY, Fidelity, Record
from dcgym.backends.registry import NETWORKS
from dcgym.config import check_int
from dcgym.envs.backends import find_object, make_copies, topology_of
from dcgym.envs.network_checks import check_network
from dcgym.envs.scenario_time import rows_since
from dcgym.envs.system import Actions, BoundTask, Caption, FloatArray, Info, Mask, TimeArray, Told
from dcgym.errors import needs_reset
from dcgym.monitors import StateWords
from dcgym.tasks.network.activity import Activity
from dcgym.tasks.network.compiled import CompiledRuns
from dcgym.tasks.network.meter import Measured, Meter, Traffic
from dcgym.tasks.network.protocol import NOTHING, NetworkCommands, NetworkState
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.network.task import NetworkTask
from dcgym.topologies import Topology
from dcgym.traffic.plans.applications import AppPlan

if TYPE_CHECKING:
    from dcgym.envs.render.network import NetworkPainter
    from dcgym.envs.render.rows import Rows

__all__ = ["NetworkSystem", "make_tasks", "network_system"]

Settings = TypeVar("Settings", bound=NetworkSettings)
Task = TypeVar("Task", bound=NetworkTask)
MakeTask = Callable[[Settings, "Topology | None"], NetworkTask]


def network_system(
    make_task: MakeTask[Settings], settings: Settings, n_envs: int = 1
) -> NetworkSystem:
    """Bind copies of a task to copies of a network; nothing is started.

    Args:
        make_task: Makes the task of one copy.
        settings: The arguments of the environment.
        n_envs: Number of copies.

    Raises:
        ConfigError: An argument is not allowed.
    """
    return NetworkSystem(*make_tasks(make_task, settings, n_envs))


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


class NetworkSystem(BoundTask[NetworkTask, Network, Measured]):
    """Copies of a task on a network.

    Args:
        tasks: The task of each copy, all on the same topology.
        backend: Name of a backend, a network, or a function that makes one of a topology.

    Raises:
        ConfigError: The backend cannot do what the tasks ask for.
    """

    def __init__(self, tasks: Sequence[NetworkTask], backend: object) -> None:
        first = tasks[0]
        super().__init__(first, backend, len(tasks), first.interval_ns)
        self.tasks = tuple(tasks)
        self._meter = Meter(
            first, StateWords(len(first.topology.switch_ports), len(first.topology.hosts))
        )
        # What is in force of each decision, (E, n) each.
        self._values = [np.tile(one.initial, (self.n_envs, 1)) for one in first.decisions]
        self._traffic = Traffic(np.zeros(self.n_envs))
        # The first observation of each copy's episode, when its traffic begins.
        self._begun_ns = np.zeros(self.n_envs, np.int64)
        self._told_events = [0] * self.n_envs
        self._new_events = np.zeros(self.n_envs, np.int64)
        # Made with the first picture.
        self._painter: NetworkPainter | None = None
        # Unknown names and options must fail here, not in the first episode.
        self._backend = self._make()
        self.capabilities = self._backend.capabilities
        # The same while an episode runs, where it can do so: to find that out takes longer than it.
        self._runs: CompiledRuns | None = None
        self._check(first)
        self.has_whole_steps = (
            isinstance(self._backend, CompiledRuns)
            and not self.capabilities.real_time
            and self._meter.can_run
            and self.interval_ns > 0
        )

    def task(self, env: int = 0) -> NetworkTask:
        """Return the task of a copy."""
        return self.tasks[env]

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, Any]) -> None:
        """Begin an episode in each copy that has a seed, and measure it."""
        episodes = [
            None if seed is None else task.begin(seed, options)
            for task, seed in zip(self.tasks, seeds, strict=True)
        ]
        if self._backend is None:
            self._backend = self._make()
        for task, episode in zip(self.tasks, episodes, strict=True):
            if episode is not None:
                self._check(task)
        self._backend.reset(episodes)
        self._runs = self._backend if isinstance(self._backend, CompiledRuns) else None
        _, begun = self._begin_seeds(seeds)
        self._values = self._initial_where(begun)
        self._apply()
        self._note_plans()
        # Read after the action was in force.
        self._meter.begin(self._backend.read(begun), begun)
        self.read_ns = self._meter.time_ns
        self._begun_ns = np.where(begun, self.read_ns, self._begun_ns)
        for env in np.flatnonzero(begun).tolist():
            self._told_events[env] = 0
            self.tasks[env].activity = Activity(self, env, self.tasks[env].plan)
        self._measure(begun, is_first=True)

    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Take the actions and put them in force."""
        # Counted, which NumPy does in a quarter of the time of any() and all().
        n_fresh = np.count_nonzero(fresh)
        if actions is not None and n_fresh < self.n_envs:
            task, own = self.tasks[0], _of_network(actions)
            if n_fresh:
                # Nobody reads those of copies that have just begun.
                others = np.flatnonzero(~fresh)
                values = self._initial_where(fresh)
                chosen = task.read([own[i] for i in others.tolist()])
                for both, read in zip(values, chosen, strict=True):
                    both[others] = read
            else:
                values = task.read(own)
            self._values = values
        return self._apply()

    def whole_step(self, actions: Actions, until_ns: TimeArray) -> Mask:
        """Take the actions, run each copy until its time, and measure it."""
        self._values = self.tasks[0].read(_of_network(actions))
        self._apply()
        if self._runs is None:
            raise needs_reset()
        self._note(self._meter.run(self._runs, until_ns, self._values, self._traffic))
        if self.tasks[0].events:
            self._count_events(range(self.n_envs))
        return self.finished()

    def restart(self, mask: Mask) -> None:
        """Begin the present interval anew in some copies."""
        self._meter.restart(self.running.read(mask), mask)
        self.read_ns = self._meter.time_ns

    def last_states(self) -> tuple[NetworkState, NetworkState]:
        """Return the states of the copies when their last interval began, and when it ended.

        They hold until the next step.
        """
        return self._meter.states

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time."""
        return self.running.advance(until_ns)

    def now_ns(self) -> TimeArray:
        """Return the time of each copy."""
        return self.running.apply(NOTHING)

    def measure(self, mask: Mask) -> None:
        """Read the state of some copies."""
        asked = None if np.count_nonzero(mask) == self.n_envs else mask
        self._meter.end(self.running.read(asked), asked)
        self._measure(asked)

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval."""
        return self.now.metrics

    def finished(self) -> Mask:
        """Tell in which copies every flow of the plan has ended."""
        return self._meter.states[1].finished

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy."""
        return self.now.metrics_of(env)

    def told(self) -> Told:
        """Return the events of the interval, and what the decisions show of themselves, (E, 1)."""
        shown = {name: values[:, None] for name, values in self.now.info.items()}
        return {"events": self._new_events[:, None].copy(), **shown}

    def told_to(self, env: int, agent: int) -> Info:
        """Return what `told` says of one copy, in a third of the time."""
        shown = {name: values[env] for name, values in self.now.info.items()}
        return {"events": self._new_events.item(env), **shown}

    def flow_records(self, env: int) -> npt.NDArray[Any]:
        """Return the flows of a copy that have ended; times count from the first observation."""
        return rows_since(self.running.records(ENDED_FLOWS, env), int(self._begun_ns[env]))

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy's episode."""
        return self.running.records(EVENT_RECORDS, env) if self.tasks[env].events else []

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""
        return self.running.records(FIDELITY, env)

    def render(self, env: int, caption: Caption) -> npt.NDArray[np.uint8] | None:
        """Return a picture of the network with load, queues and what is decided."""
        measured, task = self._state, self.tasks[env]
        if measured is None:
            return None
        from dcgym.envs.render.network import NetworkPainter

        if self._painter is None:
            self._painter = NetworkPainter(task.topology, self._drawn_rows())
        return self._painter.draw(measured.interval.of(env), self._drawn_values(env), caption)

    def _drawn_rows(self) -> list[Rows]:
        """Return what stands beside a picture: the decisions."""
        from dcgym.envs.render.rows import make_rows

        task = self.tasks[0]
        return [make_rows(task.topology, decision) for decision in task.decisions]

    def _drawn_values(self, env: int) -> list[FloatArray]:
        """Return the values of these rows, 0 to 1 each."""
        return [values[env] for values in self._values]

    def close(self) -> None:
        """End the networks; the next episode makes new ones."""
        super().close()
        self._runs = None

    def _initial_where(self, mask: Mask) -> list[FloatArray]:
        """Return what is in force, and in some copies what episodes begin with."""
        pairs = zip(self.tasks[0].decisions, self._values, strict=True)
        return [np.where(mask[:, None], decision.initial, own) for decision, own in pairs]

    def _apply(self, others: NetworkCommands = NOTHING) -> TimeArray:
        """Put what is decided, and other commands, in force; returns when all of it was."""
        commands = self.tasks[0].commands(self._values)
        return self.running.apply(commands if others is NOTHING else commands | others)

    def _note_plans(self) -> None:
        """Learn what the rewards have to know of the episodes' plans."""
        is_hidden = np.array([isinstance(task.plan, AppPlan) for task in self.tasks])
        deliverable_bps = np.array([task.deliverable_bps for task in self.tasks])
        self._traffic = Traffic(deliverable_bps, is_hidden if is_hidden.any() else None)

    def _measure(self, mask: Mask | None, *, is_first: bool = False) -> None:
        self._note(
            self._meter.measure(self._values, self._traffic, measured=mask, is_first=is_first)
        )
        if self.tasks[0].events:
            self._count_events(
                range(self.n_envs) if mask is None else np.flatnonzero(mask).tolist()
            )

    def _note(self, measured: Measured) -> None:
        # Made anew with each measurement: nobody else holds its arrays.
        self._state, self.read_ns = measured, self._meter.time_ns
        self.observations = measured.observation[:, None]
        self.terms = {name: term[:, None] for name, term in measured.terms.items()}

    def _count_events(self, envs: Iterable[int]) -> None:
        for env in envs:
            told, count = self._told_events[env], len(self.running.records(EVENT_RECORDS, env))
            self._new_events[env], self._told_events[env] = count - told, count

    def _make(self) -> Network:
        spec, topology = self._spec, self.tasks[0].topology
        if isinstance(spec, str):
            wanted, defaults = self.tasks[0].backend_options(), self.tasks[0].default_options()
            return make_copies(NETWORKS, spec, topology, self.n_envs, wanted, defaults)
        kind = "a Network of a topology; or a Network"
        make = (lambda _: spec) if is_backend(spec) else spec
        return networks(self.n_envs, lambda: made_by(make, kind, topology))

    def _check(self, task: NetworkTask) -> None:
        """Refuse what the backend cannot do."""
        check_network(task, self.capabilities)


def _of_network(actions: Actions) -> Sequence[Any] | npt.NDArray[Any]:
    """Return the action of the one agent of each copy."""
    return actions[:, 0] if isinstance(actions, np.ndarray) else [one[0] for one in actions]
