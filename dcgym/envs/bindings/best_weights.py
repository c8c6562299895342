"""The best weights of accelerators for a rate, by exhaustive search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dcgym.backends.base import DevicePool
from dcgym.tasks.accelerators.pool import AcceleratorPool
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode
from dcgym.tasks.accelerators.task import AcceleratorTask

__all__ = ["BestWeights"]

SEED = 1
WARM_UP_NS = 10 * 10**9
MEASURED_NS = 40 * 10**9
# Rates are looked at in steps of this share of what the processors can serve.
STEPS = 100
LEAST_SAMPLES = 100


class BestWeights:
    """Tries all weights of the accelerators, 0 to w_max, side by side on the same requests.

    Args:
        task: The task; the processors keep their weight, and accelerators are weighed alike.
        make: Makes copies of a pool.
    """

    def __init__(
        self, task: AcceleratorTask, make: Callable[[AcceleratorPool, int], DevicePool]
    ) -> None:
        self._task, self._make = task, make
        self._known: dict[int, tuple[int, float]] = {}

    def find(self, rate_per_s: float) -> tuple[int, float]:
        """Return the accelerators' best weight, and its p99 in seconds.

        Weights under which requests fail are worse than any others. The rate is rounded to 1 % of
        what the processors can serve, and nothing else happens in the search: events are left out.

        Args:
            rate_per_s: Requests a second.
        """
        capacity = self._task.pool.server_capacity_per_s
        step = max(1, round(rate_per_s / capacity * STEPS))
        if step not in self._known:
            self._known[step] = self._search(step / STEPS * capacity)
        return self._known[step]

    def _search(self, rate_per_s: float) -> tuple[int, float]:
        task = self._task
        levels = np.arange(task.settings.most_weight + 1)
        weights = np.tile(task.first_weights, (len(levels), 1))
        weights[:, 0] = np.maximum(weights[:, 0], 1.0)
        weights[:, 1:] = levels[:, None]
        pool = self._make(task.pool.changed(events=()), len(levels))
        pool.reset([DeviceEpisode(SEED, rate_per_s)] * len(levels))
        pool.apply(DeviceCommands("wrr", task.settings.server_rule, weights[:, None, :]))
        until_ns = np.full(len(levels), WARM_UP_NS)
        pool.advance(until_ns)
        pool.read()
        # Long enough for a percentile 99 where requests are few.
        longer = max(1.0, LEAST_SAMPLES * 10 / (rate_per_s * MEASURED_NS / 1e9))
        pool.advance(until_ns + int(longer * MEASURED_NS))
        state = pool.read()
        pool.close()
        p99_s = state.latency_p99_ns / 1e9
        order = np.lexsort((p99_s, state.failed_share))
        best = int(order[0])
        return int(levels[best]), float(p99_s[best])
