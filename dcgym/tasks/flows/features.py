"""Features of a flow: functions of what it did in an interval, from -1 to 1.

Aurora (Jay et al., ICML 2019) sees latency inflation, latency ratio and send ratio; here each is
mapped onto a bounded range, where 0 is a flow that waits nowhere and loses nothing. A flow that is
not there has zeros.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry
from dcgym.tasks.flows.interval import FlowInterval

__all__ = ["FLOW_FEATURES"]

FloatArray = npt.NDArray[np.float64]

# A window of 2^16 packets is 1.
LARGEST_WINDOW_BITS = 16.0

FLOW_FEATURES: Registry[Callable[[FlowInterval], FloatArray]] = Registry(
    "flow features", "features", re.compile(r"[a-z][a-z0-9_]*")
)
"""Features of flows; each returns (E, F) numbers from -1 to 1."""


def share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return a part of a whole, 0 where there is no whole.

    Args:
        part: The part.
        whole: The whole, of the same shape.
    """
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _latency_inflation(interval: FlowInterval) -> FloatArray:
    duration_s = np.maximum(interval.duration_s, 1e-9)
    return np.clip(np.where(interval.duration_s > 0, interval.rtt_rise_s / duration_s, 0), -1, 1)


def _send_excess(interval: FlowInterval) -> FloatArray:
    more = np.maximum(interval.sent, interval.delivered)
    return share(interval.sent - interval.delivered, more)


FLOW_FEATURES.add_all(
    {
        # Change of the mean round trip over the length of the interval.
        "latency_inflation": _latency_inflation,
        # 1 less the least round trip over the mean one: 0.5 is a latency ratio of 2.
        "queueing": lambda interval: np.clip(
            share(interval.rtt_s - interval.min_rtt_s, interval.rtt_s), 0, 1
        ),
        # 0.5: twice as many segments left as arrived; Aurora's send ratio of 2.
        "send_excess": _send_excess,
        "loss": lambda interval: np.clip(share(interval.lost, interval.sent), 0, 1),
        "marks": lambda interval: np.clip(share(interval.marked, interval.delivered), 0, 1),
        "rate": lambda interval: np.clip(share(interval.rate_bps, interval.link_rates_bps), 0, 1),
        "rate_of_best": lambda interval: share(interval.rate_bps, interval.best_rate_bps),
        "window": lambda interval: np.clip(
            np.log2(np.maximum(interval.cwnd, 1)) / LARGEST_WINDOW_BITS, 0, 1
        ),
    }
)
