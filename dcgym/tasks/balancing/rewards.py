"""Rewards of load balancing, as named terms with weights, for any number of balancers at once.

Defaults first: ``q`` is the number of flows that this balancer tracks, ``q_sed`` the same in a
shadow pool that meets the same flows under SED with the configured weights, and ``rate`` the flows
a second that a balancer gets: by Little's law `gain_over_sed` is the mean completion time gained.
Over loads, events and policies these two rank policies as mean completion time does, and the terms
of fairness do not (docs/guides/balancing.md). Flows that servers turn away leave ``q``: watch
`rejected` in the metrics where backlogs are short.

Except for `difference`, the other terms look at the durations ``d`` that one balancer saw: per
server, the decayed mean of the time a flow has lasted when it is sampled (queueing and service).
They are local: no message passes between balancers, or between servers and balancers. Symbols and
sources: Yao 2023, section 7.2 (VBF: definition 7.2, PBF: definition 7.3), and the appendix of the
multi-agent paper.

| term | formula | range | remarks |
|---|---|---|---|
| gain_over_sed | (q_sed - q) / rate | s | the default where the backend can run a shadow |
| log_ongoing | -ln(1 + q) | at most 0 | the default elsewhere |
| vbf | -var(d) | at most 0, s^2 | 0 where all servers are alike, however slow |
| log_vbf | -ln(var(d) + 1e-6 s^2) | at most 13.8 | keeps a gradient where the variance is near 0 |
| vbf_log_vbf | vbf + log_vbf | | the published reward |
| pbf | prod(d / max(d)) | 0 to 1 | vanishes for many servers: a product of N ratios |
| makespan | -max(d) | at most 0, s | |
| log_makespan | -ln(max(d) + 1e-3 s) | at most 6.9 | logMS of the source |
| tail_completion | -max(c) | at most 0, s | c: 90th percentile of completion times, by server |
| jain | (sum d)^2 / (N sum d^2) | 1/N to 1 | |
| cv | -std(d) / mean(d) | at most 0 | |
| in_service | -E / N_all | -1 to 0 | E of all N_all servers take new flows: what they cost |
| difference | F(l) - F(l without i) | s^2 | F = vbf of the true drain times ``l`` (twin only) |

Durations equal to 0 on every server, as before the first flow, count as fair. Servers that take no
flows (drained, removed, not yet added) are left out: N is the number of the others.

Every other term but `makespan`, `log_makespan`, `tail_completion`, `in_service` and `difference`
judges fairness alone: servers that are slow alike score well. The published lemma that local VBF
gives an exact potential game is false (a covariance was dropped); `difference` does give one, since
what the others have queued does not depend on balancer i. It needs the truth, which only the twin
knows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dcgym.registry import Registry
from dcgym.tasks.balancing.measure import LoadInputs
from dcgym.tasks.common.statistics import (
    FloatArray,
    finite_count,
    jain_index,
    safe_ratio,
    variance,
)

__all__ = ["BALANCING_REWARDS", "GAIN_OVER_SED", "LOG_ONGOING", "vbf"]

GAIN_OVER_SED = "gain_over_sed"
"""The term that needs a shadow (`Capabilities.shadows`)."""
LOG_ONGOING = "log_ongoing"

# One square millisecond: below it two servers cannot be told apart.
VARIANCE_FLOOR_S2 = 1e-6
DURATION_FLOOR_S = 1e-3


def _gain_over_sed(inputs: LoadInputs) -> FloatArray:
    assert inputs.shadow_tracked is not None, "checked where the backend is chosen"
    gain: FloatArray = (inputs.shadow_tracked - inputs.tracked) / inputs.rate_per_s
    return gain


def _log_ongoing(inputs: LoadInputs) -> FloatArray:
    result: FloatArray = -np.log1p(inputs.tracked)
    return result


def vbf(loads: FloatArray) -> FloatArray:
    """Return the variance-based fairness: minus the variance over the servers.

    Args:
        loads: A load for each server; NaN leaves a server out.
    """
    return -variance(loads)


def _log_vbf(loads: FloatArray) -> FloatArray:
    result: FloatArray = -np.log(variance(loads) + VARIANCE_FLOOR_S2)
    return result


def _log_makespan(inputs: LoadInputs) -> FloatArray:
    longest = np.nanmax(inputs.durations_s, axis=-1)
    return np.asarray(-np.log(longest + DURATION_FLOOR_S))


def _tail_completion(inputs: LoadInputs) -> FloatArray:
    return np.asarray(-np.nanmax(inputs.completions_p90_s, axis=-1))


def _pbf(loads: FloatArray) -> FloatArray:
    largest = np.nanmax(loads, axis=-1, keepdims=True)
    ratios = np.where(np.isnan(loads), 1.0, safe_ratio(loads, largest, otherwise=1.0))
    result: FloatArray = ratios.prod(axis=-1)
    return result


def _cv(loads: FloatArray) -> FloatArray:
    mean = np.nansum(loads, axis=-1) / finite_count(loads)
    return -safe_ratio(np.sqrt(variance(loads)), mean, otherwise=0.0)


def _in_service(inputs: LoadInputs) -> FloatArray:
    return -inputs.part_in_service


def _difference(inputs: LoadInputs) -> FloatArray:
    return vbf(inputs.drains_s) - vbf(inputs.drains_s - inputs.own_drains_s)


BALANCING_REWARDS: Registry[Callable[[LoadInputs], FloatArray]] = Registry(
    "balancing rewards", "reward"
)
"""Terms of the reward of a balancer, by name."""

BALANCING_REWARDS.add(
    GAIN_OVER_SED, _gain_over_sed, "completion time gained over SED on the same flows"
)
BALANCING_REWARDS.add(LOG_ONGOING, _log_ongoing, "minus the logarithm of the flows under way")
BALANCING_REWARDS.add("vbf", lambda inputs: vbf(inputs.durations_s), "minus the variance")
BALANCING_REWARDS.add(
    "log_vbf", lambda inputs: _log_vbf(inputs.durations_s), "minus the logarithm of the variance"
)
BALANCING_REWARDS.add(
    "vbf_log_vbf",
    lambda inputs: vbf(inputs.durations_s) + _log_vbf(inputs.durations_s),
    "vbf + log_vbf, the published reward",
)
BALANCING_REWARDS.add(
    "pbf", lambda inputs: _pbf(inputs.durations_s), "product of the ratios to the longest duration"
)
BALANCING_REWARDS.add(
    "makespan",
    lambda inputs: -np.nanmax(inputs.durations_s, axis=-1),
    "minus the longest duration",
)
BALANCING_REWARDS.add("log_makespan", _log_makespan, "minus the logarithm of the makespan")
BALANCING_REWARDS.add(
    "tail_completion", _tail_completion, "minus the worst server's tail completion time"
)
BALANCING_REWARDS.add("jain", lambda inputs: jain_index(inputs.durations_s), "Jain's index")
BALANCING_REWARDS.add(
    "cv", lambda inputs: _cv(inputs.durations_s), "minus the coefficient of variation"
)
BALANCING_REWARDS.add(
    "in_service", _in_service, "minus the part of the servers that take new flows"
)
BALANCING_REWARDS.add(
    "difference", _difference, "what this balancer adds to the true fairness (twin only)"
)
