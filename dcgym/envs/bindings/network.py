"""Tasks of one agent on a network, bound to one: many copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Network
from dcgym.backends.needs import NetworkNeeds
from dcgym.envs.bindings.traffic import TrafficBinding
from dcgym.envs.values import Actions, FloatArray, Info, Mask, Seen, TimeArray, Told
from dcgym.errors import ConfigError
from dcgym.tasks.common.states import where
from dcgym.tasks.network.compiled import CompiledRuns
from dcgym.tasks.network.meter import Measured, Meter
from dcgym.tasks.network.protocol import NetworkCommands, NetworkState
from dcgym.tasks.network.task import NetworkTask
from dcgym.traffic import Plan
from dcgym.traffic.plans.applications import AppPlan

if TYPE_CHECKING:
    from dcgym.envs.render.rows import Rows as Bars

__all__ = ["NetworkBinding"]


class NetworkBinding(TrafficBinding[NetworkTask]):
    """Copies of some decisions about a network.

    Args:
        tasks: The task of each copy, all on the same topology.
        backend: What `read_backend` returned.

    Raises:
        ConfigError: The backend cannot do what the tasks ask for.
    """

    def __init__(self, tasks: Sequence[NetworkTask], backend: object) -> None:
        first = tasks[0]
        columns = first.features.ratio_columns()
        meter = Meter(first.topology, columns, first.probes, first.decisions)
        super().__init__(tasks, backend, meter)
        # What episodes begin with, and what is in force, of each decision, (E, n) each.
        self._initial = [np.tile(one.initial, (self.n_envs, 1)) for one in first.decisions]
        self._values = self._initial
        # The same as the backend, where native code can run whole steps.
        self._runs: CompiledRuns | None = None

    def make(self) -> Network:
        """Return networks."""
        made, weighs = super().make(), any(one.name == "weights" for one in self._task.decisions)
        if weighs and not self._can.path_weights:
            raise ConfigError("backend", made.name, "one that weighs paths; Open vSwitch cannot")
        # To find that out takes longer than a whole step.
        self._runs = made if isinstance(made, CompiledRuns) else None
        runs = self._runs is not None and not self._can.real_time and self._meter.can_run
        self.has_whole_steps = runs and self.interval_ns > 0
        return made

    def opening(self) -> list[tuple[NetworkCommands, int]]:
        """Return what episodes begin with."""
        return [(self._task.commands(self._initial), 0)]

    def begin(self, state: NetworkState, mask: Mask) -> Seen:
        """Measure the beginning of some episodes, where nothing has been decided."""
        self._values = self._initial_where(mask)
        return super().begin(state, mask)

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
        task, features = self._task, self._task.features
        values = self._values = task.read(_of_network(actions))
        self.running.apply(task.commands(values))
        assert self._runs is not None
        last = features.last_ratios
        made, run = self._meter.run(self._runs, until_ns, self._traffic, values, last)
        features.note_ratios(run.ratios)
        self._note(made, None)
        return self._meter.time_ns, self._seen(made, run.observation)

    def measure(self, mask: Mask | None, *, is_first: bool = False) -> Seen:
        """Measure the intervals of some copies."""
        made = self._meter.measure(self._traffic, self._values)
        self._note(made, mask)
        observation = self._task.observe(made, self._values, is_first=is_first, measured=mask)
        return self._seen(made, observation)

    def told(self) -> Told:
        """Return what the decisions show of themselves too, (E, 1)."""
        shown = {name: values[:, None] for name, values in self.measured.info.items()}
        return {**super().told(), **shown}

    def told_to(self, env: int, agent: int) -> Info:
        """Return what `told` says of one copy, in a third of the time."""
        shown = {name: values[env] for name, values in self.measured.info.items()}
        return {"events": self._new_events.item(env), **shown}

    def forget(self) -> None:
        """Forget the networks too."""
        super().forget()
        self._runs = None

    def _drawn_bars(self) -> list[Bars]:
        """Return the decisions."""
        from dcgym.envs.render.rows import make_rows

        return [make_rows(self._task.topology, decision) for decision in self._task.decisions]

    def _drawn_values(self, env: int) -> list[FloatArray]:
        """Return what is in force."""
        return [values[env] for values in self._values]

    def _initial_where(self, mask: Mask) -> list[FloatArray]:
        """Return what is in force, and in some copies what episodes begin with."""
        pairs = zip(self._initial, self._values, strict=True)
        return [where(mask, initial, own) for initial, own in pairs]

    def _seen(self, made: Measured, observation: npt.NDArray[np.float32]) -> Seen:
        terms = self._task.terms(made, self._values)
        return observation[:, None], {name: term[:, None] for name, term in terms.items()}

    def _needs(self, task: NetworkTask) -> NetworkNeeds:
        matrix, probes = task.features.has_flow_matrix, tuple(task.probes.pairs)
        return replace(super()._needs(task), flow_matrix=matrix, probes=probes)

    def _check_plan(self, plan: Plan) -> None:
        """Refuse a plan that the backend cannot run."""
        super()._check_plan(plan)
        probes = [list(pair) for pair in self._task.probes.pairs]
        if probes and isinstance(plan, AppPlan):
            raise ConfigError("probes", probes, "none with applications")

    def _check(self, task: NetworkTask) -> None:
        """Refuse what the backend cannot do."""
        super()._check(task)
        can = self._can
        if task.features.has_flow_matrix and not can.flow_matrix:
            raise ConfigError("features", "flow_matrix", "a backend that measures a flow matrix")
        if task.probes.pairs and not can.probes:
            raise ConfigError("probes", list(task.probes.pairs), "none, with this backend")


def _of_network(actions: Actions) -> Sequence[object] | npt.NDArray[np.generic]:
    """Return the action of the one agent of each copy."""
    return actions[:, 0] if isinstance(actions, np.ndarray) else [one[0] for one in actions]
