"""Differences of policies, pair by pair, corrected for as many comparisons as are made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dcgym.backends.records import Record
from dcgym.config import check_in
from dcgym.suites.results import Records, known_layout
from dcgym.suites.samples import (
    Sample,
    Samples,
    Stratum,
    differences,
    sample_of,
    strata_of,
)
from dcgym.suites.statistics import FloatArray

__all__ = [
    "SURE",
    "Comparison",
    "Gap",
    "all_pairs",
    "compare",
    "from_best",
    "gap_of",
    "holm",
    "mean_of",
    "samples_of",
]

SURE = 0.05
"""A difference whose corrected p-value is below this is no chance."""


@dataclass(frozen=True)
class Gap:
    """A mean of paired differences.

    Attributes:
        mean: Mean of the cases' means; NaN where there is no pair.
        half_width: Of its 95 % interval, Student's t; NaN where one pair, or one training, tells
            nothing of it.
        p: Probability of as large a mean, either way, if chance alone made it; NaN where the half
            width is.
        pairs: Least number of pairs of a case.
    """

    mean: float
    half_width: float
    p: float
    pairs: int


@dataclass(frozen=True)
class Comparison:
    """How much more a policy has of a metric than another.

    Attributes:
        policy: Its name.
        other: Name of the other.
        gap: The paired differences.
        p: The gap's, corrected for the comparisons of all pairs of policies (`holm`).
    """

    policy: str
    other: str
    gap: Gap
    p: float


def compare(records: Records, metric: str, case: str | None = None) -> list[Comparison]:
    """Return how all policies differ from the one with the best mean of a metric.

    Args:
        records: Records of runs.
        metric: Name of a metric that has a better end.
        case: Name of the only case: the records' ``scenario``; all cases, which count the same, if
            None.

    Returns:
        What `from_best` returns; nothing where there are no records.

    Raises:
        ConfigError: No metric of that name has a better end.
    """
    own = [run for run in records if case is None or run.get("scenario", "") == case]
    if not own:
        return []
    ends = known_layout(str(own[0]["env"])).ends
    return from_best(samples_of(own, metric), ends[check_in("metric", metric, [*ends])])


def samples_of(records: Records, metric: str, factor: float = 1.0) -> dict[str, dict[str, Sample]]:
    """Return a metric of each policy's runs, by policy and case.

    Args:
        records: Records of runs.
        metric: Name of the metric.
        factor: What its values are multiplied by.
    """
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        cases = found.setdefault(str(record["policy"]), {})
        cases.setdefault(str(record.get("scenario", "")), []).append(record)
    return {
        policy: {case: sample_of(own, metric, factor) for case, own in cases.items()}
        for policy, cases in found.items()
    }


def mean_of(samples: Samples) -> float:
    """Return the mean of the cases' means.

    Args:
        samples: Runs by case.
    """
    return sum(one.mean for one in samples.values()) / len(samples)


def from_best(samples: Mapping[str, Samples], better: str | None) -> list[Comparison]:
    """Return how policies differ from the one with the best mean, pair by pair.

    The p-values are corrected for all pairs of policies, not only those with the best one: only the
    same runs say which one that is.

    Args:
        samples: Runs by policy and case. A mean over the easier seeds or cases would flatter who
            was not measured in all of them: such policies are left out.
        better: "high" or "low".

    Returns:
        One a policy, itself included, the best first; nothing where no end is better.
    """
    most: dict[str, int] = {}
    for cases in samples.values():
        for case, one in cases.items():
            most[case] = max(most.get(case, 0), one.values.size)
    sizes = {p: {c: s.values.size for c, s in cases.items()} for p, cases in samples.items()}
    whole = {policy: samples[policy] for policy, own in sizes.items() if own == most}
    if better not in ("high", "low") or not whole or not all(most.values()):
        return []
    sign = 1.0 if better == "low" else -1.0
    ranking = sorted(whole, key=lambda policy: sign * mean_of(whole[policy]))
    pairs = all_pairs(whole)
    return [pairs[policy, ranking[0]] for policy in ranking]


def all_pairs(samples: Mapping[str, Samples]) -> dict[tuple[str, str], Comparison]:
    """Return the comparisons of all pairs of policies, by both names, either way round.

    Args:
        samples: Runs by policy and case.
    """
    pairs = list(itertools.combinations(samples, 2))
    gaps = [gap_of(differences(samples[one], samples[other])) for one, other in pairs]
    found = {}
    for (one, other), gap, p in zip(pairs, gaps, holm([gap.p for gap in gaps]), strict=True):
        found[one, other] = Comparison(one, other, gap, p)
        found[other, one] = Comparison(other, one, replace(gap, mean=-gap.mean), p)
    for policy, own in samples.items():
        pairs_of_it = min((one.values.size for one in own.values()), default=0)
        found[policy, policy] = Comparison(policy, policy, Gap(0.0, 0.0, 1.0, pairs_of_it), 1.0)
    return found


def gap_of(pairs: Samples) -> Gap:
    """Return the mean of paired differences over cases, each counting the same.

    What is independent are trainings where there are several, or else seeds: of each, the mean over
    the cases that share it is one value of Student's t. Cases with seeds of their own add their
    variances (Welch and Satterthwaite's degrees of freedom).

    Args:
        pairs: What `differences` returns.
    """
    # Here, as it takes as long to load as all of dcgym.
    from scipy.special import stdtr, stdtrit

    kept = {case: one for case, one in pairs.items() if one.values.size}
    if not kept:
        return Gap(math.nan, math.nan, math.nan, 0)
    least = min(one.values.size for one in kept.values())
    mean, variances, degrees = 0.0, [], []
    for stratum in strata_of(kept):
        units = _unit_means(kept, stratum)
        weight = len(stratum.cases) / len(kept)
        mean += weight * float(units.mean())
        degrees.append(len(units) - 1)
        if len(units) > 1:
            variances.append(weight**2 * float(units.var(ddof=1)) / len(units))
    if not all(degrees):
        return Gap(mean, math.nan, math.nan, least)
    variance = sum(variances)
    if variance == 0:
        return Gap(mean, 0.0, float(mean == 0), least)
    freedom = variance**2 / sum(v**2 / d for v, d in zip(variances, degrees, strict=True))
    error = math.sqrt(variance)
    p = 2 * float(stdtr(freedom, -abs(mean) / error))
    return Gap(mean, float(stdtrit(freedom, 0.975)) * error, p, least)


def _unit_means(pairs: Samples, stratum: Stratum) -> FloatArray:
    """Return a value for each unit of a stratum: the mean over its cases of what it has there."""
    if len(stratum.cases) == 1 and len(stratum.units) == pairs[stratum.cases[0]].values.size:
        return pairs[stratum.cases[0]].values
    total, seen = np.zeros(len(stratum.units)), np.zeros(len(stratum.units))
    for case in stratum.cases:
        at = np.searchsorted(stratum.units, stratum.of_run[case])
        counts = np.bincount(at, minlength=len(total))
        sums = np.bincount(at, pairs[case].values, minlength=len(total))
        total += np.divide(sums, counts, out=np.zeros(len(total)), where=counts > 0)
        seen += counts > 0
    return np.asarray(total / seen)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (S. Holm, Scand. J. Statist. 6, 1979).

    Below 0.05 they are, with 95 % probability, only where there is a difference.

    Args:
        p_values: One a comparison; NaN where there is none.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted((p, at) for at, p in enumerate(p_values) if not math.isnan(p))
    found, least = [math.nan] * len(p_values), 0.0
    for rank, (p, at) in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * p))
        found[at] = least
    return found
