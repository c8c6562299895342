"""What rewards look at, worked out when a term asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.tasks.common.lazy import Lazy
from dcgym.tasks.network.compiled import CompiledTotals
from dcgym.tasks.network.interval import Interval
from dcgym.tasks.network.rewards import RewardInputs
from dcgym.tasks.network.totals import Totals

__all__ = ["LazyInputs"]

FloatArray = npt.NDArray[np.float64]


def _lazy(name: str) -> Any:
    def find(inputs: LazyInputs) -> Any:
        source = inputs.decided.get(name)
        return getattr(inputs, f"_{name}")() if source is None else source()

    return Lazy(find)


class LazyInputs(RewardInputs):
    """Inputs that are worked out when a term asks for them.

    Args:
        interval: What ports and hosts did.
        totals: What they did together.
        decided: What works out the inputs that decisions know, by name.
        host_rates_bps: Rate of each host's interface, (H,).
        has_delivery: Whether the reward has the term `DELIVERY`.
    """

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
    sender_shares = _lazy("sender_shares")
    queue_delay_s = _lazy("queue_delay_s")

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

    def _sender_shares(self) -> FloatArray:
        capacity_bytes = np.maximum(self.host_rates_bps / 8 * self.interval.duration_s, 1)
        arrived_bytes = self.interval.host_deltas["tx_bytes"]
        shares = np.minimum(arrived_bytes / capacity_bytes, 1.0)
        is_sending = (self.interval.hosts["active_flows"] > 0) | (arrived_bytes > 0)
        return np.where(is_sending, shares, np.nan)

    def _queue_delay_s(self) -> FloatArray:
        interval = self.interval
        delays_s = interval.ports["backlog_bytes"] * 8 / interval.rates_bps
        return np.asarray(np.maximum.reduce(delays_s, axis=-1, initial=0.0))

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
