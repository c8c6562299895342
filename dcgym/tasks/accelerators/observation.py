"""What an agent sees of servers with accelerators.

Four numbers of each row, a row being a device position ("mean") or a device ("devices"); then four
that concern all. Everything is from 0 to 1.

| number of a row | mean | devices |
|---|---|---|
| utilisation | mean over the servers of the share of the workers' time in use | of the device |
| queue | mean requests q at the device, as q / (q + 8) | of the device |
| load | mean reported utilisation, as the balancer knows it | of the device |
| weight | mean share of its server's weights | of the device |

| common | meaning |
|---|---|
| p99 | p99 / (p99 + latency threshold); 1 where requests came and none completed |
| rate | requests a second over what the processors can serve, as x / (1 + x) |
| failed | share of the requests that were dropped or lost |
| age | mean age of the last reports, as x / (x + 1 s); 1 where none has come |
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.tasks.accelerators.protocol import DeviceState
from dcgym.tasks.common.rows import RowLayout

__all__ = ["COMMON_COLUMNS", "ROW_COLUMNS", "common_view", "layout_of", "row_view"]

FloatArray = npt.NDArray[np.float64]

ROW_COLUMNS = ("utilisation", "queue", "load", "weight")
COMMON_COLUMNS = ("p99", "rate", "failed", "age")
QUEUE_SCALE = 8.0
NS_PER_S = 1e9


def layout_of(n_rows: int) -> RowLayout:
    """Return where the numbers are.

    Args:
        n_rows: Device positions, or devices.
    """
    return RowLayout(n_rows, len(ROW_COLUMNS), len(COMMON_COLUMNS), 0)


def row_view(state: DeviceState, has_all: bool) -> FloatArray:
    """Return the numbers of each row, (E, rows, 4).

    Args:
        state: Of the pool.
        has_all: Whether each device has a row; else each position.
    """
    queue = state.queue / (state.queue + QUEUE_SCALE)
    columns = (state.utilisation, queue, state.reported_load / 100, state.share)
    stacked = np.stack([np.clip(one, 0.0, 1.0) for one in columns], axis=-1)
    if not has_all:
        mean: FloatArray = stacked.mean(axis=1)
        return mean
    n_envs, n_servers, n_devices, n = stacked.shape
    return stacked.reshape(n_envs, n_servers * n_devices, n)


def common_view(state: DeviceState, load: FloatArray, threshold_s: float) -> FloatArray:
    """Return what concerns all rows, (E, 4).

    Args:
        state: Of the pool.
        load: Requests a second over what the processors can serve, (E,).
        threshold_s: The latency threshold.
    """
    p99_s = state.latency_p99_ns / NS_PER_S
    is_missing = np.isnan(p99_s)
    slow = np.where(is_missing, state.arrivals > 0, p99_s / (p99_s + threshold_s))
    age_ns = state.report_age_ns
    heard = (age_ns >= 0).sum(axis=(1, 2))
    mean_s = np.where(age_ns >= 0, age_ns, 0).sum(axis=(1, 2)) / np.maximum(heard, 1) / NS_PER_S
    age = np.where(heard > 0, mean_s / (mean_s + 1), 1.0)
    return np.column_stack([slow, load / (1 + load), np.minimum(state.failed_share, 1.0), age])
