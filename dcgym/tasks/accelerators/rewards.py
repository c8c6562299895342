"""Rewards of accelerator balancing, as named terms with weights.

| term | formula | remarks |
|---|---|---|
| p4wise | Algorithm 1 of P4Wise: max_reward, -max_reward or -1 | its default |
| latency | minus the mean latency over the threshold | |
| p99 | minus the 99th percentile of the latency over the threshold | |
| failures | minus ten times the share of the requests that were dropped or lost | |
| regret | 1 minus the p99 over that of the best weights | needs ``oracle`` |

Algorithm 1 asks in this order. An offered load above 1 is a failure. With the processors alone in
use, a p99 below the threshold is a success. With all devices in use, a p99 below it is one if the
processors are busier than the other threshold. All else is -1. Latency terms are at least -100,
which also stands for an interval in which requests came and none completed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry

__all__ = ["ACCELERATOR_REWARDS", "AcceleratorInputs", "Thresholds"]

FloatArray = npt.NDArray[np.float64]

FAILURE_WEIGHT = 10.0
WORST = -100.0


@dataclass(frozen=True)
class Thresholds:
    """What Algorithm 1 compares with.

    Attributes:
        latency_s: Largest p99 of a success.
        utilisation: Least mean utilisation of the processors where all devices are in use.
        max_reward: Reward of a success.
    """

    latency_s: float
    utilisation: float
    max_reward: float


@dataclass(frozen=True)
class AcceleratorInputs:
    """What a reward may look at, of one interval; E copies.

    Attributes:
        mean_s: Mean latency, (E,); NaN where no request completed.
        p99_s: Its 99th percentile, likewise.
        best_p99_s: That of the best weights, (E,); NaN where nobody looked for them.
        arrivals: Requests that came, (E,).
        failed_share: Share of the requests that were dropped or lost, (E,).
        offered_max: Largest offered load, as `failure` says, (E,).
        processor_utilisation: Mean utilisation of the processors, (E,), 0 to 1.
        processors_only: Whether no accelerator has a weight, (E,).
        all_devices: Whether every device has a weight, (E,).
        thresholds: What Algorithm 1 compares with.
    """

    mean_s: FloatArray
    p99_s: FloatArray
    best_p99_s: FloatArray
    arrivals: FloatArray
    failed_share: FloatArray
    offered_max: FloatArray
    processor_utilisation: FloatArray
    processors_only: npt.NDArray[np.bool_]
    all_devices: npt.NDArray[np.bool_]
    thresholds: Thresholds


def _p4wise(inputs: AcceleratorInputs) -> FloatArray:
    limits = inputs.thresholds
    # Without a request there is no latency, and nothing that would be too slow.
    is_fast = (inputs.p99_s < limits.latency_s) | (inputs.arrivals == 0)
    is_busy = inputs.processor_utilisation > limits.utilisation
    succeeds = is_fast & (inputs.processors_only | (inputs.all_devices & is_busy))
    reward: FloatArray = np.where(succeeds, limits.max_reward, -1.0)
    return np.where(inputs.offered_max > 1, -limits.max_reward, reward)


def _over_threshold(value_s: FloatArray, inputs: AcceleratorInputs) -> FloatArray:
    ratio = -value_s / inputs.thresholds.latency_s
    missing = np.where(inputs.arrivals > 0, WORST, 0.0)
    return np.maximum(np.where(np.isnan(ratio), missing, ratio), WORST)


def _latency(inputs: AcceleratorInputs) -> FloatArray:
    return _over_threshold(inputs.mean_s, inputs)


def _p99(inputs: AcceleratorInputs) -> FloatArray:
    return _over_threshold(inputs.p99_s, inputs)


def _failures(inputs: AcceleratorInputs) -> FloatArray:
    return -FAILURE_WEIGHT * inputs.failed_share


def _regret(inputs: AcceleratorInputs) -> FloatArray:
    regret = 1 - inputs.p99_s / inputs.best_p99_s
    return np.maximum(np.where(np.isnan(regret), 0.0, regret), WORST)


ACCELERATOR_REWARDS: Registry[Callable[[AcceleratorInputs], FloatArray]] = Registry(
    "accelerator rewards", "reward"
)
"""The terms by name."""

ACCELERATOR_REWARDS.add("p4wise", _p4wise, "Algorithm 1: success, failure, or go on")
ACCELERATOR_REWARDS.add("latency", _latency, "minus the mean latency over the threshold")
ACCELERATOR_REWARDS.add("p99", _p99, "minus the p99 over the threshold")
ACCELERATOR_REWARDS.add("failures", _failures, "minus ten times the share of failed requests")
ACCELERATOR_REWARDS.add("regret", _regret, "1 minus the p99 over that of the best weights")
