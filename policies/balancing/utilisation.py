"""Weighted round robin by reported utilisation, as gRPC has it (proposal A58).

Each server's weight is ``qps / (utilisation + errors_per_s / qps * penalty)``. Servers without a
usable weight get the mean of the others; with fewer than two usable weights all are alike. A server
that is new or was silent is without a weight for a blackout, and a weight that nothing renews
expires.

gRPC takes the reports of requests, or one each 10 s out of band. Here they are the polls of the
scenario, which arrive late. A poll tells how many workers are busy at that moment, so rates and
utilisation are averaged over about ten updates. gRPC's order is earliest deadline first; ours is
nginx's smooth round robin, which has the same shares.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dcgym.config import check_range, check_seconds
from dcgym.policies.balancing.base import SlowLoopPolicy
from dcgym.policies.base import FloatArray
from dcgym.tasks.common.statistics import safe_ratio

__all__ = ["UtilisationPolicy", "utilisation_weights"]

PENALTY = 1.0
PERIOD_S = 1.0
LEAST_PERIOD_S = 0.1
BLACKOUT_S = 10.0
EXPIRY_S = 180.0
# Least weight of a new report in the averages: our choice.
NEWEST = 0.1


def utilisation_weights(
    rates_per_s: FloatArray,
    utilisations: FloatArray,
    error_rates_per_s: FloatArray,
    penalty: float = PENALTY,
) -> FloatArray:
    """Return gRPC's weights; NaN where there is none.

    Args:
        rates_per_s: Requests a second that each server answered, errors included.
        utilisations: Busy part of each server, 0 or more.
        error_rates_per_s: Of the requests, those that were answered with an error.
        penalty: How much an error counts.
    """
    cost = utilisations + safe_ratio(error_rates_per_s, rates_per_s, 0.0) * penalty
    is_usable = (rates_per_s > 0) & (cost > 0)
    weights: FloatArray = np.full(len(rates_per_s), np.nan)
    weights[is_usable] = rates_per_s[is_usable] / cost[is_usable]
    return weights


class UtilisationPolicy(SlowLoopPolicy):
    """Give each server requests by what it serves at which utilisation, errors counted."""

    def __init__(
        self,
        period_s: float = PERIOD_S,
        blackout_s: float = BLACKOUT_S,
        expiry_s: float = EXPIRY_S,
        penalty: float = PENALTY,
    ) -> None:
        """Choose the times of the loop.

        Args:
            period_s: Seconds between two updates of the weights, at least 0.1.
            blackout_s: How long a new or returned server is without a weight.
            expiry_s: How long a weight lasts that no report renews.
            penalty: How much an error counts.
        """
        period_s = check_range("period_s", period_s, LEAST_PERIOD_S, 3600.0)
        super().__init__("wrr-utilisation", "round-robin-learned", period_s)
        self._blackout_s = check_range("blackout_s", blackout_s, 0.0, 3600.0)
        self._expiry_s = check_seconds("expiry_s", expiry_s)
        self._penalty = check_range("penalty", penalty, 0.0, 1000.0)

    def _begin(self) -> FloatArray:
        n = len(self.task.configured_weights)
        self._first_s, self._last_s = np.full(n, np.nan), np.full(n, -np.inf)
        self._found: FloatArray = np.full(n, np.nan)
        self._before: dict[str, FloatArray] = {}
        self._reports, self._means = np.zeros(n), np.zeros((3, n))
        return np.ones(n)

    def _update(self, weights: FloatArray, servers: Mapping[str, FloatArray]) -> FloatArray:
        names = ("probe_time_s", "probed_answered", "probed_errors")
        now = {name: np.asarray(servers[name], np.float64) for name in names}
        before, self._before = self._before, now
        if not before:
            return weights
        passed_s = now["probe_time_s"] - before["probe_time_s"]
        # A counter that fell belongs to a server that began anew.
        rises = {name: now[name] - before[name] for name in names[1:]}
        is_new = (passed_s > 0) & (rises["probed_answered"] >= 0)
        is_new &= np.asarray(servers["eligible"], np.bool_)
        reported = (
            safe_ratio(rises["probed_answered"], passed_s, 0.0),
            np.asarray(servers["probed_busy"], np.float64) / self.task.workers,
            safe_ratio(rises["probed_errors"], passed_s, 0.0),
        )
        self._average(np.stack(reported), is_new)
        rates, utilisations, errors = self._means
        found = utilisation_weights(rates, utilisations, errors, self._penalty)
        self._renew(np.where(is_new, found, np.nan), float(np.fmax.reduce(now["probe_time_s"])))
        return self._filled()

    def _average(self, reported: FloatArray, is_new: npt.NDArray[np.bool_]) -> None:
        self._reports += is_new
        newest = np.maximum(NEWEST, 1 / np.maximum(self._reports, 1))
        self._means += np.where(is_new, newest * (reported - self._means), 0.0)

    def _renew(self, found: FloatArray, now_s: float) -> None:
        is_found = np.isfinite(found)
        was_silent = now_s - self._last_s > self._expiry_s
        self._reports = np.where(is_found & was_silent, 1, self._reports)
        self._first_s = np.where(is_found & was_silent, now_s, self._first_s)
        self._last_s = np.where(is_found, now_s, self._last_s)
        is_ready = is_found & (now_s - self._first_s >= self._blackout_s)
        self._found = np.where(is_ready, found, self._found)
        self._found = np.where(now_s - self._last_s > self._expiry_s, np.nan, self._found)

    def _filled(self) -> FloatArray:
        is_usable = np.isfinite(self._found)
        if is_usable.sum() < 2:
            return np.ones_like(self._found)
        weights: FloatArray = np.where(is_usable, self._found, self._found[is_usable].mean())
        return weights
