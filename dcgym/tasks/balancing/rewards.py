"""Rewards of load balancing, as named terms with weights, for any number of balancers at once.

Except for `difference`, a term looks at the durations ``d`` that one balancer saw: per server, the
decayed mean of the time a flow has lasted when it is sampled (queueing and service). They are
local: no message passes between balancers, or between servers and balancers. Symbols and sources:
Yao 2023, section 7.2 (VBF: definition 7.2, PBF: definition 7.3), and the appendix of the
multi-agent paper.

| term | formula | range | remarks |
|---|---|---|---|
| vbf | -var(d) | at most 0, s^2 | 0 where all servers are alike, however slow |
| log_vbf | -ln(var(d) + 1e-6 s^2) | at most 13.8 | keeps a gradient where the variance is near 0 |
| vbf_log_vbf | vbf + log_vbf | | the published default |
| pbf | prod(d / max(d)) | 0 to 1 | vanishes for many servers: a product of N ratios |
| makespan | -max(d) | at most 0, s | |
| jain | (sum d)^2 / (N sum d^2) | 1/N to 1 | |
| cv | -std(d) / mean(d) | at most 0 | |
| difference | F(l) - F(l without i) | s^2 | F = vbf of the true drain times ``l`` (twin only) |

Durations equal to 0 on every server, as before the first flow, count as even. Servers that take no
flows (drained, removed, not yet added) are left out: N is the number of the others.

Every term but `makespan` and `difference` judges evenness alone: servers that are slow alike score
well. The published lemma that local VBF gives an exact potential game is false (a covariance was
dropped); `difference` does give one, since what the others have queued does not depend on
balancer i. It needs the truth, which only the twin knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.tasks.common.rewards import read_weights

__all__ = ["REWARDS", "BalancingReward", "LoadInputs", "jain_index", "vbf"]

FloatArray = npt.NDArray[np.float64]

# One square millisecond: below it two servers cannot be told apart.
VARIANCE_FLOOR_S2 = 1e-6


@dataclass(frozen=True)
class LoadInputs:
    """What a reward may look at; the last axis is the server, any axes may precede it.

    NaN stands for a server that takes no flows.

    Attributes:
        durations_s: Decayed mean duration of the flows that this balancer sampled.
        drains_s: Time each server needs to finish all its work, in truth.
        own_drains_s: The part of it that this balancer's flows cause.
    """

    durations_s: FloatArray
    drains_s: FloatArray
    own_drains_s: FloatArray


def vbf(loads: FloatArray) -> FloatArray:
    """Return the variance-based fairness: minus the variance over the servers."""
    return -_variance(loads)


def jain_index(loads: FloatArray) -> FloatArray:
    """Return Jain's index over the last axis, 1/N to 1; 1 where all loads are 0."""
    squares = _count(loads) * np.nansum(np.square(loads), axis=-1)
    return _ratio(np.square(np.nansum(loads, axis=-1)), squares, otherwise=1.0)


def _log_vbf(loads: FloatArray) -> FloatArray:
    result: FloatArray = -np.log(_variance(loads) + VARIANCE_FLOOR_S2)
    return result


def _pbf(loads: FloatArray) -> FloatArray:
    largest = np.nanmax(loads, axis=-1, keepdims=True)
    ratios = np.where(np.isnan(loads), 1.0, _ratio(loads, largest, otherwise=1.0))
    result: FloatArray = ratios.prod(axis=-1)
    return result


def _cv(loads: FloatArray) -> FloatArray:
    mean = np.nansum(loads, axis=-1) / _count(loads)
    return -_ratio(np.sqrt(_variance(loads)), mean, otherwise=0.0)


def _difference(inputs: LoadInputs) -> FloatArray:
    return vbf(inputs.drains_s) - vbf(inputs.drains_s - inputs.own_drains_s)


def _count(loads: FloatArray) -> FloatArray:
    count: FloatArray = np.isfinite(loads).sum(axis=-1).astype(np.float64)
    return count


def _variance(loads: FloatArray) -> FloatArray:
    count = _count(loads)
    mean = np.nansum(loads, axis=-1) / count
    squares: FloatArray = np.nansum(np.square(loads - mean[..., None]), axis=-1)
    return squares / count


def _ratio(part: FloatArray, whole: FloatArray, otherwise: float) -> FloatArray:
    """Divide; `otherwise` where the whole is 0."""
    part, whole = np.broadcast_arrays(part, whole)
    result: FloatArray = np.divide(part, whole, out=np.full(part.shape, otherwise), where=whole > 0)
    return result


REWARDS: dict[str, Callable[[LoadInputs], FloatArray]] = {
    "vbf": lambda inputs: vbf(inputs.durations_s),
    "log_vbf": lambda inputs: _log_vbf(inputs.durations_s),
    "vbf_log_vbf": lambda inputs: vbf(inputs.durations_s) + _log_vbf(inputs.durations_s),
    "pbf": lambda inputs: _pbf(inputs.durations_s),
    "makespan": lambda inputs: -np.nanmax(inputs.durations_s, axis=-1),
    "jain": lambda inputs: jain_index(inputs.durations_s),
    "cv": lambda inputs: _cv(inputs.durations_s),
    "difference": _difference,
}


class BalancingReward:
    """A weighted sum of named terms."""

    def __init__(self, spec: str | Sequence[str] | Mapping[str, float]) -> None:
        """Read a term's name, several names (weight 1 each), or a mapping name to weight."""
        self.weights = read_weights(spec, REWARDS)

    def terms(self, inputs: LoadInputs) -> dict[str, FloatArray]:
        """Return each term times its weight; their sum is the reward."""
        return {name: weight * REWARDS[name](inputs) for name, weight in self.weights.items()}
