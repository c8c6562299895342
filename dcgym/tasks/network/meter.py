"""From the states of copies of a network to what their intervals led to, all copies in one pass.

Shapes: E copies, P switch ports, H hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.monitors import Fields, StateWords
from dcgym.tasks.common.lazy import Lazy
from dcgym.tasks.common.states import where
from dcgym.tasks.network.compiled import CompiledRun, CompiledRuns, CompiledTotals, compiled_meter
from dcgym.tasks.network.decision import Decision
from dcgym.tasks.network.interval import Interval, rises
from dcgym.tasks.network.protocol import NetworkState
from dcgym.tasks.network.reward_inputs import LazyInputs
from dcgym.tasks.network.rewards import DELIVERY
from dcgym.tasks.network.task import NetworkTask
from dcgym.tasks.network.totals import Totals

__all__ = ["Measured", "Meter", "Traffic"]

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Traffic:
    """What the reward has to know of the plans of E copies.

    Attributes:
        deliverable_bps: What the flows of each get together, (E,).
        is_hidden: Where nobody knows who has something to send, (E,); None for nowhere.
    """

    deliverable_bps: FloatArray
    is_hidden: Mask | None = None


class Measured:
    """What the last interval of each copy led to.

    Args:
        totals: What ports and hosts did together.
        duration_s: Length of the interval in seconds, (E, 1).
        decisions: What was decided.
        values: What was in force of each decision, (E, n) each.
        make_interval: Returns what ports and hosts did.

    Attributes:
        duration_s: The same.
        observation: What the agents see of the interval, (E, n).
        terms: Each reward term times its weight, (E,) each.
    """

    def __init__(
        self,
        totals: Totals | CompiledTotals,
        duration_s: FloatArray,
        decisions: Sequence[Decision],
        values: Sequence[FloatArray],
        make_interval: Callable[[], Interval],
    ) -> None:
        self.duration_s = duration_s
        self.observation = np.empty(0, np.float32)
        self.terms: Mapping[str, FloatArray] = {}
        self.totals = totals
        self._decisions, self._values = decisions, values
        self._make_interval = make_interval

    @Lazy
    def interval(self) -> Interval:
        """What ports and hosts did."""
        return self._make_interval()

    def _interval(self) -> Interval:
        return self.interval

    @Lazy
    def metrics(self) -> Mapping[str, FloatArray]:
        """The interval's metrics by the names of results, (E,) each."""
        metrics = self.totals.metrics()
        for decision in self._decisions:
            metrics.update(decision.metrics(self._interval))
        return metrics

    def metrics_of(self, env: int) -> dict[str, float]:
        """Return the metrics of one copy.

        Args:
            env: Number of the copy.
        """
        metrics = self.totals.metrics_of(env)
        for decision in self._decisions:
            for name, values in decision.metrics(self._interval).items():
                metrics[name] = values.item(env)
        return metrics

    @Lazy
    def info(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """What the decisions show of themselves, (E, ...) each."""
        info: dict[str, npt.NDArray[np.float32]] = {}
        for decision, values in zip(self._decisions, self._values, strict=True):
            info.update(decision.info(values, self._interval))
        return info


class Meter:
    """Measures the intervals of E copies of a network.

    Args:
        task: What is observed and rewarded.
        layout: Of the states' words.
    """

    def __init__(self, task: NetworkTask, layout: StateWords) -> None:
        ports, hosts = task.topology.switch_ports, task.topology.host_ports
        self._task, self._layout = task, layout
        # Before the last interval of each copy, and after it.
        self._before: NetworkState | None = None
        self._after: NetworkState | None = None
        self._port_rates_bps = np.array([port.rate_bps for port in ports], np.float64)
        self._queue_limits_bytes = np.array([port.queue_bytes for port in ports], np.float64)
        self._host_rates_bps = np.array([port.rate_bps for port in hosts], np.float64)
        self._has_delivery = DELIVERY in task.reward.weights
        # Weight of the default reward, where it is the only term.
        self._delivery_weight: float | None = None
        if list(task.reward.weights) == [DELIVERY]:
            self._delivery_weight = task.reward.weights[DELIVERY]
        self._compiled = compiled_meter(
            layout,
            self._port_rates_bps,
            self._queue_limits_bytes,
            self._host_rates_bps,
            task.features.ratio_columns(),
        )

    def begin(self, state: NetworkState, mask: Mask) -> None:
        """Begin an episode in some copies, and an interval of no length.

        Args:
            state: Theirs.
            mask: Which, (E,); all the first time.
        """
        self._before = where(mask, state, self._before)
        self._after = where(mask, state, self._after)

    def restart(self, state: NetworkState, mask: Mask) -> None:
        """Begin the next interval of some copies anew.

        Args:
            state: Theirs.
            mask: Which, (E,).
        """
        self._after = where(mask, state, self._after)

    def end(self, state: NetworkState, mask: Mask | None) -> None:
        """End an interval of some copies; that of the others stays what it was.

        Args:
            state: Theirs.
            mask: Which, (E,); None for all.
        """
        before, after = self._before, self._after
        assert before is not None and after is not None
        self._before = after if mask is None else where(mask, after, before)
        self._after = state if mask is None else where(mask, state, after)

    @property
    def states(self) -> tuple[NetworkState, NetworkState]:
        """The copies when their last interval began, and when it ended."""
        assert self._before is not None and self._after is not None
        return self._before, self._after

    @property
    def time_ns(self) -> npt.NDArray[np.int64]:
        """When each copy was read, (E,)."""
        assert self._after is not None
        return self._after.time_ns

    def measure(
        self,
        values: Sequence[FloatArray],
        traffic: Traffic,
        *,
        is_first: bool | Mask = False,
        measured: Mask | None = None,
    ) -> Measured:
        """Return what the intervals led to.

        Args:
            values: What is in force of each decision, (E, n) each.
            traffic: Of the plans.
            is_first: In which copies an episode begins, so that every change is 0.
            measured: As `FeatureSet.observe` takes it.

        Raises:
            ConfigError: A reward term returns something else than one number a copy.
        """
        before, after = self._before, self._after
        assert before is not None and after is not None
        interval, totals = self._interval(before, after, traffic)
        made = Measured(totals, interval.duration_s, self._task.decisions, values, lambda: interval)
        made.observation = self._task.features.observe(
            interval, _joined(values), is_first=is_first, measured=measured
        )
        made.terms = self._terms(made, values)
        return made

    @property
    def can_run(self) -> bool:
        """Whether `run` is possible: all that is measured in each step, native code measures."""
        return self._compiled is not None and self._compiled.observes

    def run(
        self,
        networks: CompiledRuns,
        until_ns: npt.NDArray[np.int64],
        values: Sequence[FloatArray],
        traffic: Traffic,
    ) -> Measured:
        """Let all copies run until their times, as `end` and `measure` thereafter.

        Args:
            networks: The copies, none of which has just begun.
            until_ns: When the intervals end, (E,).
            values: As `measure` takes them.
            traffic: Of the plans.

        Returns:
            What the intervals led to.

        Raises:
            ConfigError: A reward term returns something else than one number a copy.
        """
        before, compiled = self._after, self._compiled
        assert before is not None and compiled is not None
        found = self._run_compiled(networks, until_ns, values, traffic)
        after, duration_s = found.state, found.duration_s
        self._before, self._after = before, after
        made = Measured(
            found.totals,
            duration_s,
            self._task.decisions,
            values,
            lambda: compiled.interval(before, after, duration_s),
        )
        made.observation = found.observation
        made.terms = self._terms(made, values)
        return made

    def _run_compiled(
        self,
        networks: CompiledRuns,
        until_ns: npt.NDArray[np.int64],
        values: Sequence[FloatArray],
        traffic: Traffic,
    ) -> CompiledRun:
        before, compiled, features = self._after, self._compiled, self._task.features
        assert before is not None and compiled is not None
        found: list[CompiledRun] = []

        def measure(runner: object) -> npt.NDArray[np.int64]:
            made = compiled.run(
                runner,
                until_ns,
                before,
                traffic.deliverable_bps,
                traffic.is_hidden,
                _joined(values),
                features.last_ratios,
            )
            found.append(made)
            return made.state.time_ns

        networks.run_measured(until_ns, measure)
        features.note_ratios(found[0].ratios)
        return found[0]

    def _terms(self, made: Measured, values: Sequence[FloatArray]) -> Mapping[str, FloatArray]:
        """Return each reward term times its weight, (E,) each."""
        delivery = made.totals.delivery
        if self._delivery_weight is not None and delivery is not None:
            return {DELIVERY: self._delivery_weight * delivery}
        decided: dict[str, Callable[[], FloatArray]] = {}
        for decision, own in zip(self._task.decisions, values, strict=True):
            decided.update(decision.reward_inputs(own, made.interval))
        inputs = LazyInputs(
            made.interval, made.totals, decided, self._host_rates_bps, self._has_delivery
        )
        terms = self._task.reward.terms(inputs)
        _check_terms(terms, len(made.duration_s))
        return terms

    def _interval(
        self, before: NetworkState, after: NetworkState, traffic: Traffic
    ) -> tuple[Interval, Totals | CompiledTotals]:
        """Return the interval between two states, and what ports and hosts did together."""
        matrix, shares = after.flow_matrix, self._task.probes.shares(after.probe_rtt_ns)
        if matrix is not None and before.flow_matrix is not None:
            matrix = np.maximum(matrix - before.flow_matrix, 0)
        if self._compiled is not None:
            return self._compiled.measure(
                before, after, traffic.deliverable_bps, traffic.is_hidden, matrix, shares
            )
        layout, state = self._layout, after.words.astype(np.float64)
        rose = rises(after.words[:, : layout.n_counters], before.words[:, : layout.n_counters])
        interval = Interval(
            duration_s=((after.time_ns - before.time_ns) / 1e9)[:, None],
            ports=Fields(state, layout.ports),
            port_deltas=Fields(rose, layout.port_counters),
            rates_bps=self._port_rates_bps,
            queue_limits_bytes=self._queue_limits_bytes,
            flow_matrix=matrix,
            probe_shares=shares,
            hosts=Fields(state, layout.hosts),
            host_deltas=Fields(rose, layout.host_counters),
        )
        active_before = before.words[:, layout.hosts["active_flows"]].astype(np.float64)
        return interval, Totals(
            interval,
            rose,
            layout,
            active_before,
            self._host_rates_bps,
            traffic.deliverable_bps,
            traffic.is_hidden,
        )


def _joined(values: Sequence[FloatArray]) -> FloatArray:
    return values[0] if len(values) == 1 else np.concatenate(values, axis=-1)


def _check_terms(terms: Mapping[str, FloatArray], n_envs: int) -> None:
    for name, term in terms.items():
        if np.shape(term) != (n_envs,):
            allowed = f"one number for each of {n_envs} copies: reduce the last axis"
            raise ConfigError(f"reward.{name}", f"of shape {np.shape(term)}", allowed)
