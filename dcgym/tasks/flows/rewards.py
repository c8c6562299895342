"""Rewards of a flow as named terms with weights.

``aurora`` is the reward of Aurora's own gym (PCC-RL, ``network_sim.py``): 0.001 (10 throughput in
packets/s - 1000 latency in s - 2000 loss). ``orca`` follows Orca (SIGCOMM 2020): the power of the
flow over what it could be, ``(throughput - 5 lost rate) / delay`` over ``best throughput / least
delay``, where a delay of up to 1.25 times the least counts as the least. Its two constants are our
choice. A flow that is not there earns 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry
from dcgym.tasks.flows.features import FLOW_FEATURES, share
from dcgym.tasks.flows.interval import FlowInterval

__all__ = ["FLOW_REWARDS"]

FloatArray = npt.NDArray[np.float64]

ORCA_LOSS_WEIGHT = 5.0
ORCA_DELAY_MARGIN = 1.25

FLOW_REWARDS: Registry[Callable[[FlowInterval], FloatArray]] = Registry(
    "flow rewards", "reward", re.compile(r"[a-z][a-z0-9_]*")
)
"""Terms of the tasks on flows; each returns (E, F) numbers."""


def _aurora(interval: FlowInterval) -> FloatArray:
    duration_s = np.maximum(interval.duration_s, 1e-9)
    packets_per_s = np.where(interval.duration_s > 0, interval.delivered / duration_s, 0)
    loss = np.clip(share(interval.lost, interval.sent), 0, 1)
    earned = 0.001 * (10 * packets_per_s - 1000 * interval.rtt_s - 2000 * loss)
    return np.where(interval.is_open, earned, 0.0)


def _orca(interval: FlowInterval) -> FloatArray:
    lost_bps = interval.rate_bps * share(interval.lost, np.maximum(interval.delivered, 1))
    gained = share(interval.rate_bps - ORCA_LOSS_WEIGHT * lost_bps, interval.best_rate_bps)
    is_short = interval.rtt_s <= ORCA_DELAY_MARGIN * interval.min_rtt_s
    delay = np.where(is_short, 1.0, share(interval.min_rtt_s, interval.rtt_s))
    return np.where(interval.is_open, np.clip(gained, -1, 1) * delay, 0.0)


FLOW_REWARDS.add_all(
    {
        "aurora": _aurora,
        "orca": _orca,
        "rate": FLOW_FEATURES["rate"],
        "queueing": lambda interval: -FLOW_FEATURES["queueing"](interval),
        "loss": lambda interval: -FLOW_FEATURES["loss"](interval),
    }
)
