"""Aggregates over many cases and seeds, with intervals that few runs can bear.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS
2021): interquartile mean, bootstrap stratified by case, performance profile, probability of
improvement. Two things differ, as both are known here. Runs of two policies with the same seed met
the same traffic, so comparisons are of pairs. Runs of a learner come from several trainings, so
that resamples draw trainings first and evaluation seeds within them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.suites.statistics import FloatArray

__all__ = [
    "RESAMPLES",
    "Estimate",
    "Sample",
    "Samples",
    "differences",
    "estimate",
    "improvements",
    "interquartile_mean",
    "mean_of_cases",
    "performance_profile",
    "pooled",
    "resample",
]

IntArray: TypeAlias = npt.NDArray[np.int64]

RESAMPLES = 2000
"""Resamples of an interval, as in the source."""

# The same records give the same intervals.
_SEED = 20211


@dataclass(frozen=True)
class Sample:
    """Scores of a policy in one case; one entry a run, all arrays of shape (n,).

    Attributes:
        values: The scores.
        seeds: Evaluation seed of each run: what the environment's traffic was drawn from.
        trainings: Training that each run scored; all equal where nobody learned.
        plans: Digest of the plan that each run met; empty where plans have none.
    """

    values: FloatArray
    seeds: IntArray
    trainings: IntArray
    plans: npt.NDArray[np.str_] = field(default_factory=lambda: np.empty(0, np.str_))


Samples: TypeAlias = Mapping[str, Sample]
"""By case, the strata of the bootstrap."""

Statistic: TypeAlias = Callable[[Mapping[str, FloatArray]], FloatArray]
"""From values by case, (..., n) each, to one number a resample, (...)."""


@dataclass(frozen=True)
class Estimate:
    """A statistic and its 95 % percentile-bootstrap interval.

    Attributes:
        value: The statistic of the runs; NaN where there are none.
        low: Lower end of the interval.
        high: Upper end.
    """

    value: float
    low: float
    high: float


def interquartile_mean(values: FloatArray) -> FloatArray:
    """Return the mean of the middle half: a quarter of the values is left out at either end.

    Args:
        values: Shape (..., n); of n values, ``n // 4`` are left out at either end.

    >>> float(interquartile_mean(np.array([0.0, 1.0, 2.0, 99.0])))
    1.5
    """
    cut = values.shape[-1] // 4
    middle = np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut]
    return np.asarray(middle.mean(axis=-1))


def pooled(values: Mapping[str, FloatArray]) -> FloatArray:
    """Return the interquartile mean of the runs of all cases together.

    Args:
        values: Values by case, (..., n) each.
    """
    return interquartile_mean(np.concatenate([*values.values()], axis=-1))


def mean_of_cases(values: Mapping[str, FloatArray]) -> FloatArray:
    """Return the mean of the cases' means: each case counts the same.

    Args:
        values: Values by case, (..., n) each.
    """
    return np.asarray(np.mean([one.mean(axis=-1) for one in values.values()], axis=0))


def resample(
    samples: Samples, generator: np.random.Generator, resamples: int = RESAMPLES
) -> dict[str, FloatArray]:
    """Return runs drawn with replacement, within each case.

    Of several trainings, as many are drawn with replacement, the same ones in every case, since one
    training may have been scored in all of them; then runs of each that was drawn.

    Args:
        samples: The runs.
        generator: Source of chance.
        resamples: Number of resamples R.

    Returns:
        By case an array of shape (R, at least n).
    """
    most = max((len(np.unique(sample.trainings)) for sample in samples.values()), default=1)
    picked = generator.integers(most, size=(resamples, most))
    return {
        case: _resample_case(sample, picked, generator)
        for case, sample in samples.items()
        if sample.values.size
    }


def _resample_case(sample: Sample, picked: IntArray, generator: np.random.Generator) -> FloatArray:
    order = np.argsort(sample.trainings, kind="stable")
    counts = np.unique(sample.trainings, return_counts=True)[1]
    first = np.cumsum(counts) - counts
    # A case in which a training was not scored draws among those that were.
    chosen = (picked % len(counts))[:, : len(counts)]
    runs_each = math.ceil(sample.values.size / len(counts))
    shares = generator.random((*chosen.shape, runs_each))
    at = first[chosen][..., None] + (shares * counts[chosen][..., None]).astype(np.int64)
    drawn: FloatArray = sample.values[order][at].reshape(len(picked), -1)
    return drawn


def estimate(samples: Samples, statistic: Statistic) -> Estimate:
    """Return a statistic of some runs with its 95 % interval.

    Args:
        samples: The runs; cases without any are left out.
        statistic: What is reduced, such as `pooled` or `mean_of_cases`.
    """
    kept = {case: sample for case, sample in samples.items() if sample.values.size}
    if not kept:
        return Estimate(math.nan, math.nan, math.nan)
    value = statistic({case: sample.values for case, sample in kept.items()})
    drawn = statistic(resample(kept, np.random.default_rng(_SEED)))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Estimate(float(value), float(low), float(high))


def performance_profile(samples: Samples, thresholds: FloatArray) -> FloatArray:
    """Return which part of the runs scores above each threshold, each case counting the same.

    Args:
        samples: The runs.
        thresholds: The scores, (t,).

    Returns:
        Shape (3, t): the profile, and the ends of its pointwise 95 % interval.
    """
    kept = {case: sample for case, sample in samples.items() if sample.values.size}

    def above(values: Mapping[str, FloatArray]) -> FloatArray:
        parts = []
        for one in values.values():
            # Counted in sorted rows: comparing every value with every threshold takes a hundred
            # times the memory.
            rows = np.sort(np.atleast_2d(one), axis=-1)
            below = [np.searchsorted(row, thresholds, side="right") for row in rows]
            parts.append(1 - np.array(below) / rows.shape[-1])
        return np.asarray(np.mean(parts, axis=0))

    found = above({case: sample.values for case, sample in kept.items()})[0]
    drawn = above(resample(kept, np.random.default_rng(_SEED), RESAMPLES // 10))
    return np.array([found, *np.quantile(drawn, (0.025, 0.975), axis=0)])


def differences(own: Samples, other: Samples) -> dict[str, Sample]:
    """Return how much more a policy scores than another, run by run with the same case and seed.

    Runs that met different plans all the same, as by another version, are no pair.

    Args:
        own: Runs of the policy.
        other: Runs of the other.
    """
    return _paired(own, other, lambda mine, its: mine - its)


def improvements(own: Samples, other: Samples) -> dict[str, Sample]:
    """Return for each pair of runs 1 where the policy scores more, 0 where less, 1/2 for equals.

    `mean_of_cases` of it is the probability that the policy does better than the other on a case,
    a training and traffic drawn at random.

    Args:
        own: Runs of the policy.
        other: Runs of the other.
    """
    return _paired(own, other, lambda mine, its: (np.sign(mine - its) + 1) / 2)


def _paired(
    own: Samples, other: Samples, compare: Callable[[FloatArray, FloatArray], FloatArray]
) -> dict[str, Sample]:
    found = {}
    for case in own:
        if case in other:
            mine, its = own[case], other[case]
            seeds, at, there = np.intersect1d(mine.seeds, its.seeds, return_indices=True)
            if mine.plans.size and its.plans.size:
                is_same = mine.plans[at] == its.plans[there]
                seeds, at, there = seeds[is_same], at[is_same], there[is_same]
            trainings = mine.trainings[at]
            if len(np.unique(trainings)) <= 1:
                # Only the other learned, or neither.
                trainings = its.trainings[there]
            values = compare(mine.values[at], its.values[there])
            found[case] = Sample(values, seeds, trainings)
    return found
