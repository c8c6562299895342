"""AWCMP: weighted sampling, the weights refreshed from polled server occupancy.

The thesis leaves the weight map open; this one follows the author's simulator: what a server lacks
to the fullest one, averaged half and half with the old weights. The answers arrive late: the
scenario sets the delay of a probe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dcgym.config import check_range
from dcgym.policies.balancing.base import SlowLoopPolicy
from dcgym.policies.base import FloatArray

__all__ = ["AwcmpPolicy"]


class AwcmpPolicy(SlowLoopPolicy):
    """Favour the servers that were emptier at the last poll that all of them answered.

    The scenario sets the period of the polls and the delay of their answers; every step looks
    whether a newer poll is complete.
    """

    def __init__(self, blend: float = 0.5) -> None:
        """Choose how far each poll moves the weights.

        Args:
            blend: Part of the new weights in the next ones, 0 to 1.
        """
        super().__init__("awcmp", "awcmp", period_s=0.0)
        self._blend = check_range("blend", blend, 0.0, 1.0)
        self._polled_s = -math.inf

    def _begin(self) -> FloatArray:
        self._polled_s = -math.inf
        return _normalise(np.asarray(self.task.configured_weights, np.float64))

    def _update(self, weights: FloatArray, servers: Mapping[str, FloatArray]) -> FloatArray:
        # Answers to one poll come in one after the other: wait for the last.
        polled_s = float(servers["probe_time_s"].min())
        if not polled_s > self._polled_s:  # NaN before the first
            return weights
        self._polled_s = polled_s
        occupancy = np.asarray(servers["probed_flows"], np.float64)
        free = occupancy.max() - occupancy
        if free.sum() == 0:
            return weights
        return (1 - self._blend) * weights + self._blend * _normalise(free)


def _normalise(weights: FloatArray) -> FloatArray:
    """Scale to a mean of 1."""
    result: FloatArray = weights / weights.mean()
    return result
