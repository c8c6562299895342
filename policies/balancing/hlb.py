"""HLB: counts from the data plane, weights from passively sampled flow durations (Yao 2023, ch. 6).

Each period: the mean duration of each server's reservoir, over the mean of all servers, is the
measurement ``z`` of a scalar Kalman filter per server; a softmax of minus the estimates gives the
weights of the rule argmin (q + 1) / w.

The thesis prints no process noise, so that the gain of its filter falls as 1/n and the weights
freeze; the values below for process noise and first variances are those of the author's
simulator. So is the reading that the variance in the adaptive noise runs over the servers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dcgym.config import check_seconds
from dcgym.policies.balancing.base import SlowLoopPolicy
from dcgym.policies.base import FloatArray

__all__ = ["HlbPolicy", "KalmanFilters", "duration_ratios", "softmin"]

INITIAL_MEAN = 0.5
INITIAL_VARIANCE = 10.0**2
PROCESS_VARIANCE = 0.01**2
SENSOR_VARIANCE = 0.4**2
ADAPTATION = 0.01
FIXED_SENSOR_VARIANCE = 0.5


class KalmanFilters:
    """One scalar random-walk Kalman filter per server, all with the same measurement noise."""

    def __init__(
        self,
        n_servers: int,
        sensor_variance: float = SENSOR_VARIANCE,
        process_variance: float = PROCESS_VARIANCE,
        is_adaptive: bool = True,
    ) -> None:
        """Begin with an estimate of 0.5 that nothing is known about.

        Args:
            n_servers: Number of filters.
            sensor_variance: Measurement noise R; the first value of it if adaptive.
            process_variance: Process noise Q.
            is_adaptive: Whether R follows the variance of the measurements over the servers.
        """
        self.means = np.full(n_servers, INITIAL_MEAN)
        self.variances = np.full(n_servers, INITIAL_VARIANCE)
        self.sensor_variance = sensor_variance
        self._process_variance = process_variance
        self._is_adaptive = is_adaptive

    def update(self, measurements: FloatArray) -> FloatArray:
        """Take one measurement per server and return the estimates.

        Args:
            measurements: The measurements, NaN for none.
        """
        seen = np.isfinite(measurements)
        if self._is_adaptive and seen.any():
            # The process noise keeps R, and with it the gain, from reaching 0 on equal servers.
            self.sensor_variance = (
                (1 - ADAPTATION) * self.sensor_variance
                + ADAPTATION * float(measurements[seen].var())
                + self._process_variance
            )
        self.variances += self._process_variance
        gains = np.where(seen, self.variances / (self.variances + self.sensor_variance), 0.0)
        self.means += gains * np.where(seen, measurements - self.means, 0.0)
        self.variances *= 1 - gains
        return self.means


class HlbPolicy(SlowLoopPolicy):
    """Estimate each server's slowness from flow durations, and weight the queue counts by it."""

    def __init__(
        self,
        name: str = "hlb",
        rule: str = "weighted",
        period_s: float = 0.5,
        is_adaptive: bool = True,
    ) -> None:
        """Choose the variant.

        Args:
            name: hlb, hlb2 or hlb-fix.
            rule: "weighted", or "weighted2" for two candidates.
            period_s: Seconds between two updates of the weights.
            is_adaptive: False freezes the measurement noise at 0.5 (HLB-FIX).
        """
        super().__init__(name, rule, check_seconds("period_s", period_s))
        self._is_adaptive = is_adaptive
        self._filters = KalmanFilters(0)

    def _begin(self) -> FloatArray:
        n_servers = len(self.task.configured_weights)
        sensor_variance = SENSOR_VARIANCE if self._is_adaptive else FIXED_SENSOR_VARIANCE
        self._filters = KalmanFilters(n_servers, sensor_variance, is_adaptive=self._is_adaptive)
        return softmin(self._filters.means)

    def _update(self, weights: FloatArray, servers: Mapping[str, FloatArray]) -> FloatArray:
        return softmin(self._filters.update(duration_ratios(servers["duration_s"][:, 0])))


def duration_ratios(mean_durations_s: FloatArray) -> FloatArray:
    """Return each server's mean duration over that of all; NaN where nothing was sampled.

    Args:
        mean_durations_s: Mean duration of each server, 0 where nothing was sampled.
    """
    durations = np.where(mean_durations_s > 0, mean_durations_s, np.nan)
    if not np.isfinite(durations).any():
        return durations
    ratios: FloatArray = durations / np.nanmean(durations)
    return ratios


def softmin(estimates: FloatArray) -> FloatArray:
    """Return exp(-x), scaled to a sum of 1.

    Args:
        estimates: The x of each server.
    """
    powers = np.exp(estimates.min() - estimates)
    weights: FloatArray = powers / powers.sum()
    return weights
