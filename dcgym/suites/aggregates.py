"""Aggregates over many cases and seeds, with intervals that few runs can bear.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS
2021): interquartile mean, bootstrap stratified by case, performance profile, probability of
improvement. Three things differ, as more is known here. Runs of two policies with the same seed met
the same traffic, so comparisons are of pairs. Runs of a learner come from several trainings, so
that resamples draw trainings first and evaluation seeds within them. A seed's traffic is alike in
all cases (means of pools at loads 0.5 to 0.7 correlate by 0.2 to 0.8 over seeds), so that cases
with the same seeds share a draw. The ends are those of the bias-corrected and accelerated bootstrap
(B. Efron, "Better bootstrap confidence intervals", JASA 82, 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dcgym.suites.samples import IntArray, Sample, Samples, Stratum, strata_of
from dcgym.suites.statistics import FloatArray

__all__ = [
    "RESAMPLES",
    "Estimate",
    "bca",
    "estimate",
    "interquartile_mean",
    "mean_of_cases",
    "performance_profile",
    "pooled",
    "probability",
    "quantile",
    "resample",
]

RESAMPLES = 2000
"""Resamples of an interval, as in the source."""

# The same records give the same intervals.
_SEED = 20211
# Resamples without one of so many parts of the runs tell the acceleration; one run a part takes
# seconds for suites of many cases, and tells the same.
_MOST_PARTS = 1000

Statistic: TypeAlias = Callable[[Mapping[str, FloatArray]], FloatArray]
"""From values by case, (..., n) each, to one number a resample, (...)."""


@dataclass(frozen=True)
class Estimate:
    """A statistic and its 95 % interval.

    Attributes:
        value: The statistic of the runs; NaN where there are none.
        low: Lower end of the interval; NaN where one run, or one training, tells nothing of it.
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


def quantile(share: float) -> Statistic:
    """Return the statistic below which a share of the runs of all cases together lies.

    Args:
        share: From 0 to 1.
    """

    def of_runs(values: Mapping[str, FloatArray]) -> FloatArray:
        return np.asarray(np.quantile(np.concatenate([*values.values()], axis=-1), share, axis=-1))

    return of_runs


def resample(
    samples: Samples, generator: np.random.Generator, resamples: int = RESAMPLES
) -> dict[str, FloatArray]:
    """Return runs drawn with replacement, within each case.

    Of several trainings, as many are drawn with replacement, the same ones in every case, since one
    training may have been scored in all of them; then runs of each that was drawn, with the same
    seeds in all cases that have the same ones.

    Args:
        samples: The runs.
        generator: Source of chance.
        resamples: Number of resamples R.

    Returns:
        By case an array of shape (R, at least n).
    """
    most = max((len(np.unique(sample.trainings)) for sample in samples.values()), default=1)
    picked = generator.integers(most, size=(resamples, most))
    drawn: dict[bytes, IntArray] = {}
    found = {}
    for case, sample in samples.items():
        if sample.values.size:
            order, key = sample.in_order()
            if key not in drawn:
                drawn[key] = _draw(sample, picked, generator)
            found[case] = sample.values[order][drawn[key]]
    return found


def _draw(sample: Sample, picked: IntArray, generator: np.random.Generator) -> IntArray:
    """Return the places of the runs that are drawn, once these are in order."""
    counts = np.unique(sample.trainings, return_counts=True)[1]
    first = np.cumsum(counts) - counts
    # A case in which a training was not scored draws among those that were.
    chosen = (picked % len(counts))[:, : len(counts)]
    runs_each = math.ceil(sample.values.size / len(counts))
    shares = generator.random((*chosen.shape, runs_each))
    at = first[chosen][..., None] + (shares * counts[chosen][..., None]).astype(np.int64)
    return at.reshape(len(picked), -1)


def estimate(samples: Samples, statistic: Statistic) -> Estimate:
    """Return a statistic of some runs with its 95 % interval.

    Args:
        samples: The runs; cases without any are left out.
        statistic: What is reduced, such as `pooled` or `mean_of_cases`.
    """
    kept = {case: sample for case, sample in samples.items() if sample.values.size}
    if not kept:
        return Estimate(math.nan, math.nan, math.nan)
    value = float(statistic({case: sample.values for case, sample in kept.items()}))
    strata = strata_of(kept)
    if all(len(one.units) < 2 for one in strata):
        return Estimate(value, math.nan, math.nan)
    drawn = statistic(resample(kept, np.random.default_rng(_SEED)))
    left_out = [_left_out(kept, one, statistic, len(strata)) for one in strata]
    return Estimate(value, *bca(value, drawn, left_out, _reach(strata)))


def probability(wins: Samples) -> Estimate:
    """Return the mean of the cases' shares of won pairs, with its 95 % interval.

    Where every pair says the same, resamples do too. The end is the exact one of so many
    independent draws then (C. Clopper and E. Pearson, Biometrika 26, 1934).

    Args:
        wins: What `improvements` returns.
    """
    found = estimate(wins, mean_of_cases)
    if found.value not in (0.0, 1.0) or math.isnan(found.low):
        return found
    draws = max(len(one.units) for one in strata_of(wins))
    end = 0.025 ** (1 / draws)
    return Estimate(1.0, end, 1.0) if found.value else Estimate(0.0, 0.0, 1 - end)


def _reach(strata: Sequence[Stratum]) -> float:
    """Return how far the ends lie out in a bootstrap of few units, which is too narrow by itself.

    Hesterberg's expanded interval ("What Teachers Should Know About the Bootstrap", The American
    Statistician 69, 2015, section 3.3): Student's quantile in place of the normal one, and the
    spread that a sample lacks.
    """
    from scipy.special import stdtrit

    degrees = sum(len(one.units) - 1 for one in strata)
    return float(stdtrit(degrees, 0.975)) * math.sqrt((degrees + 1) / degrees)


def _left_out(samples: Samples, own: Stratum, statistic: Statistic, strata: int) -> list[float]:
    """Return the statistic without each of the units of a stratum, or without each part of many."""
    if len(own.units) < 2:
        return []
    values = {case: sample.values for case, sample in samples.items()}
    found = []
    for part in np.array_split(own.units, min(len(own.units), max(2, _MOST_PARTS // strata))):
        kept = {case: values[case][~np.isin(own.of_run[case], part)] for case in own.cases}
        without = {**values, **kept}
        found.append(float(statistic({c: one for c, one in without.items() if one.size})))
    return found


def bca(
    value: float, drawn: FloatArray, left_out: Iterable[Sequence[float]], reach: float = 1.96
) -> tuple[float, float]:
    """Return the ends of a bias-corrected and accelerated bootstrap interval.

    They are the percentiles where all resamples lie on one side of the value.

    Args:
        value: The statistic of the runs.
        drawn: That of each resample, (R,).
        left_out: That without each unit of a stratum, one sequence a stratum.
        reach: Standard deviations from the middle to an end, if the resamples were normal.
    """
    # Here, as it takes as long to load as all of dcgym.
    from scipy.special import ndtr, ndtri

    ends = np.array([-reach, reach])
    shares = ndtr(ends)
    below = float(np.mean(drawn < value) + np.mean(drawn <= value)) / 2
    if 0 < below < 1:
        bias = ndtri(below)
        shares = ndtr(bias + (bias + ends) / (1 - _acceleration(left_out) * (bias + ends)))
    low, high = np.quantile(drawn, shares)
    return float(low), float(high)


def _acceleration(left_out: Iterable[Sequence[float]]) -> float:
    """Return how fast the spread of a statistic changes with its value, by the jackknife."""
    cubes = squares = 0.0
    for found in left_out:
        if found:
            values = np.asarray(found)
            pull = (len(values) - 1) * (values.mean() - values) / len(values)
            cubes, squares = cubes + float((pull**3).sum()), squares + float((pull**2).sum())
    return cubes / squares**1.5 / 6 if squares else 0.0


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
