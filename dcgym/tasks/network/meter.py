"""From the states of copies of a network to what their intervals led to, all copies in one pass.

Shapes: E copies, P switch ports, H hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.monitors import Fields, Snapshots, StateWords
from dcgym.tasks.common.lazy import Lazy
from dcgym.tasks.network.compiled import CompiledTotals, compiled_meter
from dcgym.tasks.network.decision import Decision
from dcgym.tasks.network.interval import Interval, rises
from dcgym.tasks.network.rewards import DELIVERY, RewardInputs
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

    Attributes:
        interval: What ports and hosts did.
        observation: What the agents see of it, (E, n).
        terms: Each reward term times its weight, (E,) each.
    """

    def __init__(
        self,
        interval: Interval,
        totals: Totals | CompiledTotals,
        decisions: Sequence[Decision],
        values: Sequence[FloatArray],
    ) -> None:
        self.interval = interval
        self.observation = np.empty(0, np.float32)
        self.terms: Mapping[str, FloatArray] = {}
        self._totals, self._decided = totals, tuple(zip(decisions, values, strict=True))

    @Lazy
    def metrics(self) -> Mapping[str, FloatArray]:
        """The interval's metrics by the names of results, (E,) each."""
        metrics = self._totals.metrics()
        for decision, _ in self._decided:
            metrics.update(decision.metrics(self.interval))
        return metrics

    @Lazy
    def info(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """What the decisions show of themselves, (E, ...) each."""
        info: dict[str, npt.NDArray[np.float32]] = {}
        for decision, values in self._decided:
            info.update(decision.info(values, self.interval))
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
        self._before: Snapshots | None = None
        self._after: Snapshots | None = None
        self._port_rates_bps = np.array([port.rate_bps for port in ports], np.float64)
        self._queue_limits_bytes = np.array([port.queue_bytes for port in ports], np.float64)
        self._host_rates_bps = np.array([port.rate_bps for port in hosts], np.float64)
        self._has_delivery = DELIVERY in task.reward.weights
        self._compiled = compiled_meter(
            layout,
            self._port_rates_bps,
            self._queue_limits_bytes,
            self._host_rates_bps,
            task.features.ratio_columns(),
        )

    def begin(self, states: Snapshots, mask: Mask) -> None:
        """Begin an episode in some copies, and an interval of no length.

        Args:
            states: Their states.
            mask: Which, (E,); all the first time.
        """
        if self._before is None or self._after is None:
            self._before = self._after = states
        else:
            self._before = states.where(mask, self._before)
            self._after = states.where(mask, self._after)

    def restart(self, states: Snapshots, mask: Mask) -> None:
        """Begin the next interval of some copies anew.

        Args:
            states: Their states.
            mask: Which, (E,).
        """
        assert self._after is not None
        self._after = states.where(mask, self._after)

    def end(self, states: Snapshots, mask: Mask | None) -> None:
        """End an interval of some copies; that of the others stays what it was.

        Args:
            states: Their states.
            mask: Which, (E,); None for all.
        """
        before, after = self._before, self._after
        assert before is not None and after is not None
        self._before = after if mask is None else after.where(mask, before)
        self._after = states if mask is None else states.where(mask, after)

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
        made = Measured(interval, totals, self._task.decisions, values)
        settings = values[0] if len(values) == 1 else np.concatenate(values, axis=-1)
        made.observation = self._task.features.observe(
            interval, settings, is_first=is_first, measured=measured
        )
        decided: dict[str, Callable[[], FloatArray]] = {}
        for decision, own in zip(self._task.decisions, values, strict=True):
            decided.update(decision.reward_inputs(own, interval))
        inputs = _Inputs(interval, totals, decided, self._host_rates_bps, self._has_delivery)
        made.terms = self._task.reward.terms(inputs)
        _check_terms(made.terms, len(after.time_ns))
        return made

    def _interval(
        self, before: Snapshots, after: Snapshots, traffic: Traffic
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
            layout.counter_starts,
            active_before,
            self._host_rates_bps,
            traffic.deliverable_bps,
            traffic.is_hidden,
        )


def _check_terms(terms: Mapping[str, FloatArray], n_envs: int) -> None:
    for name, term in terms.items():
        if np.shape(term) != (n_envs,):
            allowed = f"one number for each of {n_envs} copies: reduce the last axis"
            raise ConfigError(f"reward.{name}", f"of shape {np.shape(term)}", allowed)


def _lazy(name: str) -> Any:
    def find(inputs: _Inputs) -> Any:
        source = inputs.decided.get(name)
        return getattr(inputs, f"_{name}")() if source is None else source()

    return Lazy(find)


class _Inputs(RewardInputs):
    """Inputs that are worked out when a term asks for them."""

    interval: Interval
    totals: Totals | CompiledTotals
    decided: Mapping[str, Callable[[], FloatArray]]
    host_rates_bps: FloatArray
    has_delivery: bool

    shares = _lazy("shares")
    queues = _lazy("queues")
    goodput_shares = _lazy("goodput_shares")
    delivered = _lazy("delivered")
    sender_jain = _lazy("sender_jain")
    uplink_loads = _lazy("uplink_loads")
    uplink_queues = _lazy("uplink_queues")
    uplink_jain = _lazy("uplink_jain")

    def __init__(
        self,
        interval: Interval,
        totals: Totals | CompiledTotals,
        decided: Mapping[str, Callable[[], FloatArray]],
        host_rates_bps: FloatArray,
        has_delivery: bool,
    ) -> None:
        # Past the lock of the frozen base, as its own constructor goes.
        self.__dict__.update(
            interval=interval,
            totals=totals,
            decided=decided,
            host_rates_bps=host_rates_bps,
            has_delivery=has_delivery,
        )

    @property
    def queue_peak(self) -> FloatArray:
        """Fill of the fullest queue, 0 to 1, (E,)."""
        return self.totals.queue_peak

    @property
    def delivery(self) -> FloatArray:
        """The default reward, (E,)."""
        known = self.totals.delivery if self.has_delivery else None
        return super().delivery if known is None else known

    def _shares(self) -> FloatArray:
        return np.ones_like(self.interval.host_deltas["rx_bytes"])

    def _queues(self) -> FloatArray:
        # Not negative, and np.clip costs several times as much.
        shares = self.interval.ports["backlog_bytes"] / self.interval.queue_limits_bytes
        return np.asarray(np.minimum(shares, 1.0))

    def _goodput_shares(self) -> FloatArray:
        capacity_bytes = np.maximum(self.host_rates_bps / 8 * self.interval.duration_s, 1)
        received = self.interval.host_deltas["rx_bytes"] / capacity_bytes
        return np.asarray(np.minimum(received, 1.0))

    def _delivered(self) -> FloatArray:
        if not self.has_delivery:
            return np.zeros(len(self.interval.duration_s))
        return self.totals.delivered

    def _sender_jain(self) -> FloatArray:
        if not self.has_delivery:
            return np.ones(len(self.interval.duration_s))
        return self.totals.waiting_jain

    def _uplink_loads(self) -> FloatArray:
        return np.zeros((len(self.interval.duration_s), 0))

    _uplink_queues = _uplink_loads

    def _uplink_jain(self) -> FloatArray:
        return np.ones(len(self.interval.duration_s))
