"""Intervals measured by native code: totals and observations of all copies in one call each.

An observation that holds more than ratios is made by `dcgym.tasks.network.features`, of the same
bits where both can make it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dcgym.monitors import StateWords
from dcgym.native import require
from dcgym.tasks.network.features import RatioColumns
from dcgym.tasks.network.interval import Interval, Levels, Rises
from dcgym.tasks.network.protocol import NetworkState
from dcgym.tasks.network.totals import TotalNames, Totals
from dcgym.topologies import Topology

__all__ = ["CompiledMeter", "CompiledRun", "CompiledRuns"]

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@runtime_checkable
class CompiledRuns(Protocol):
    """What a network backend may have beside: native code runs its intervals, and measures them."""

    def run_measured(
        self,
        until_ns: npt.NDArray[np.int64],
        measure: Callable[[object], npt.NDArray[np.int64]],
    ) -> None:
        """Run each copy until its time, as `advance` does, and read its state.

        Args:
            until_ns: The times, (E,).
            measure: Calls, with these times, the `dcgym_interval_runner` (include/interval.h) in
                the capsule that it is given; returns the time of each copy thereafter, (E,).
        """


@dataclass(slots=True)
class CompiledRun:
    """What an interval that native code ran and measured has led to in E copies.

    Attributes:
        state: After it.
        totals: What ports and hosts did together.
        duration_s: Seconds that it took, (E, 1).
        observation: What the agents see, (E, n).
        ratios: What the observation was made of, (E, F, P).
    """

    state: NetworkState
    totals: Totals
    duration_s: FloatArray
    observation: npt.NDArray[np.float32]
    ratios: FloatArray


class CompiledMeter:
    """Measures intervals of E copies of one network.

    Args:
        topology: The network.
        columns: What is observed; None where native code cannot make it.

    Attributes:
        observes: Whether native code makes the observation.
        host_rates_bps: Rate of each host's interface, (H,).
    """

    def __init__(
        self,
        topology: Topology,
        columns: RatioColumns | None,
    ) -> None:
        ports, hosts = topology.switch_ports, topology.host_ports
        module, layout = require("_measure"), StateWords(len(ports), len(hosts))
        self._layout, self._names = layout, TotalNames(module.METRICS, module.REWARD_TOTALS)
        self._rates_bps = np.array([port.rate_bps for port in ports], np.float64)
        self._limits_bytes = np.array([port.queue_bytes for port in ports], np.float64)
        self.host_rates_bps = np.array([port.rate_bps for port in hosts], np.float64)
        self.observes = columns is not None
        shown = RatioColumns((), (), ()) if columns is None else columns
        counters = layout.port_counters
        ratios = [
            (
                layout.ports[one.part].start,
                one.part not in counters,
                one.whole if isinstance(one.whole, str) else "",
                [] if isinstance(one.whole, str) else [counters[name].start for name in one.whole],
            )
            for one in shown.ratios
        ]
        self._measure = module.Measure(
            layout.size,
            *layout.starts(),
            self._rates_bps.tolist(),
            self._limits_bytes.tolist(),
            self.host_rates_bps.tolist(),
            ratios,
            list(shown.columns),
            list(shown.ports),
        )

    def measure(
        self,
        before: NetworkState,
        after: NetworkState,
        deliverable_bps: FloatArray,
        is_hidden: Mask | None,
        flow_matrix: FloatArray | None,
        probe_shares: FloatArray | None,
    ) -> tuple[Interval, Totals]:
        """Return an interval and its totals; its fields are worked out when somebody asks.

        Args:
            before: The states at its beginning.
            after: The states at its end.
            deliverable_bps: What all flows of the plans get together, (E,).
            is_hidden: Copies where nobody knows who has something to send, (E,); None for nowhere.
            flow_matrix: As `Interval` has it.
            probe_shares: As `Interval` has it.
        """
        now, then = after.words, before.words
        rows, duration_s = self._measure.totals(
            then, now, before.time_ns, after.time_ns, deliverable_bps, is_hidden
        )
        interval = self.interval(before, after, duration_s, flow_matrix, probe_shares)
        if self.observes:
            interval.compiled = self._observer(then, now, duration_s)
        return interval, Totals(self._names, rows)

    def interval(
        self,
        before: NetworkState,
        after: NetworkState,
        duration_s: FloatArray,
        flow_matrix: FloatArray | None = None,
        probe_shares: FloatArray | None = None,
    ) -> Interval:
        """Return an interval whose fields are worked out when somebody asks.

        Args:
            before: The states at its beginning.
            after: The states at its end.
            duration_s: Its length in seconds, (E, 1).
            flow_matrix: As `Interval` has it.
            probe_shares: As `Interval` has it.
        """
        now, then, layout = after.words, before.words, self._layout
        return Interval(
            duration_s,
            Levels(now, layout.ports),
            Rises(now, then, layout.port_counters),
            self._rates_bps,
            self._limits_bytes,
            flow_matrix,
            probe_shares,
            Levels(now, layout.hosts),
            Rises(now, then, layout.host_counters),
        )

    def run(
        self,
        runner: object,
        until_ns: npt.NDArray[np.int64],
        before: NetworkState,
        deliverable_bps: FloatArray,
        is_hidden: Mask | None,
        settings: FloatArray,
        last: FloatArray | None,
    ) -> CompiledRun:
        """Let the copies run an interval, and measure each where it ends, in one native call.

        Args:
            runner: The capsule of `CompiledRuns.run_measured`.
            until_ns: When it ends, (E,).
            before: The states at its beginning.
            deliverable_bps: As `measure` takes it.
            is_hidden: As `measure` takes it.
            settings: What is in force, (E, n).
            last: Ratios of the last interval, (E, F, P); None: no change is shown.
        """
        now_ns, words, finished, rows, duration_s, observation, ratios = self._measure.run(
            runner,
            until_ns,
            before.words,
            before.time_ns,
            deliverable_bps,
            is_hidden,
            settings,
            last,
        )
        state, totals = NetworkState(now_ns, words, finished), Totals(self._names, rows)
        return CompiledRun(state, totals, duration_s, observation, ratios)

    def _observer(
        self, before: object, after: object, duration_s: FloatArray
    ) -> Callable[[FloatArray, FloatArray | None], tuple[npt.NDArray[np.float32], FloatArray]]:
        return lambda settings, last: self._measure.observe(
            before, after, duration_s, settings, last
        )
