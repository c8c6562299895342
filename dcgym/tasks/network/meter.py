"""From the states of copies of a network to what their intervals led to, all copies in one pass.

Shapes: E copies, P switch ports, H hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.tasks.common.lazy import Lazy
from dcgym.tasks.common.states import where
from dcgym.tasks.network.compiled import CompiledMeter, CompiledRun, CompiledRuns
from dcgym.tasks.network.decision import Decision
from dcgym.tasks.network.features import RatioColumns
from dcgym.tasks.network.interval import Interval
from dcgym.tasks.network.probes import Probes
from dcgym.tasks.network.protocol import NetworkState
from dcgym.tasks.network.totals import Totals
from dcgym.topologies import Topology

__all__ = ["Measured", "Meter", "Traffic", "joined"]

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Traffic:
    """What the reward has to know of the plans of E copies.

    Attributes:
        deliverable_bps: What the flows of each get together, (E,); infinite where no reward asks.
        is_hidden: Where nobody knows who has something to send, (E,); None for nowhere.
    """

    deliverable_bps: FloatArray
    is_hidden: Mask | None = None


class Measured:
    """What the last interval of each copy led to.

    Args:
        totals: What ports and hosts did together.
        duration_s: Length of the interval in seconds, (E, 1).
        make_interval: Returns what ports and hosts did.
        decisions: What was decided.
        values: What was in force of each decision, (E, n) each.

    Attributes:
        totals: The same.
        duration_s: The same.
    """

    def __init__(
        self,
        totals: Totals,
        duration_s: FloatArray,
        make_interval: Callable[[], Interval],
        decisions: Sequence[Decision] = (),
        values: Sequence[FloatArray] = (),
    ) -> None:
        self.totals, self.duration_s = totals, duration_s
        self._make_interval = make_interval
        self._decisions, self._values = decisions, values

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
        topology: The network.
        columns: What is observed of it, where native code can make that.
        probes: Whose round trips are observed.
        decisions: What is decided.
    """

    def __init__(
        self,
        topology: Topology,
        columns: RatioColumns | None = None,
        probes: Probes | None = None,
        decisions: Sequence[Decision] = (),
    ) -> None:
        self._compiled = CompiledMeter(topology, columns)
        self._probes, self._decisions = probes, decisions
        # Before the last interval of each copy, and after it.
        self._before: NetworkState | None = None
        self._after: NetworkState | None = None

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
        before, after = self.states
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
        return self.states[1].time_ns

    def measure(self, traffic: Traffic, values: Sequence[FloatArray] = ()) -> Measured:
        """Return what the intervals led to.

        Args:
            traffic: Of the plans.
            values: What is in force of each decision, (E, n) each.
        """
        before, after = self.states
        matrix = after.flow_matrix
        if matrix is not None and before.flow_matrix is not None:
            matrix = np.maximum(matrix - before.flow_matrix, 0)
        shares = None if self._probes is None else self._probes.shares(after.probe_rtt_ns)
        interval, totals = self._compiled.measure(
            before, after, traffic.deliverable_bps, traffic.is_hidden, matrix, shares
        )
        duration_s: FloatArray = interval.duration_s
        return Measured(totals, duration_s, lambda: interval, self._decisions, values)

    @property
    def can_run(self) -> bool:
        """Whether `run` is possible: native code makes the observations."""
        return self._compiled.observes

    def run(
        self,
        networks: CompiledRuns,
        until_ns: npt.NDArray[np.int64],
        traffic: Traffic,
        values: Sequence[FloatArray],
        last: FloatArray | None,
    ) -> tuple[Measured, CompiledRun]:
        """Let all copies run until their times, as `end` and `measure` thereafter.

        Args:
            networks: The copies, none of which has just begun.
            until_ns: When the intervals end, (E,).
            traffic: Of the plans.
            values: As `measure` takes them.
            last: Ratios of the last interval, (E, F, P); None: no change is shown.

        Returns:
            What the intervals led to, and what native code made of it.
        """
        before, compiled, found = self.states[1], self._compiled, list[CompiledRun]()
        own = joined(values)

        def measure(runner: object) -> npt.NDArray[np.int64]:
            made = compiled.run(
                runner, until_ns, before, traffic.deliverable_bps, traffic.is_hidden, own, last
            )
            found.append(made)
            return made.state.time_ns

        networks.run_measured(until_ns, measure)
        [made] = found
        after, duration_s = made.state, made.duration_s
        self._before, self._after = before, after
        return Measured(
            made.totals,
            duration_s,
            lambda: compiled.interval(before, after, duration_s),
            self._decisions,
            values,
        ), made


def joined(values: Sequence[FloatArray]) -> FloatArray:
    """Return what is in force of all decisions, one behind the other, (E, n).

    Args:
        values: Of each, (E, n) each.
    """
    return values[0] if len(values) == 1 else np.concatenate(values, axis=-1)
