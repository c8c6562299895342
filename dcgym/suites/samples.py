"""Values of a policy's runs, with what they share: seed, training and plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.backends.records import Record
from dcgym.suites.results import Records
from dcgym.suites.statistics import FloatArray

__all__ = [
    "LEAST_SEEDS",
    "LEAST_TRAININGS",
    "IntArray",
    "Sample",
    "Samples",
    "Stratum",
    "differences",
    "how_many",
    "improvements",
    "paired",
    "sample_of",
    "strata_of",
    "training_of",
    "units_of",
]

IntArray: TypeAlias = npt.NDArray[np.int64]

LEAST_SEEDS = 5
"""Evaluation seeds below which a row says that it has few."""
LEAST_TRAININGS = 5
"""Trainings below which a learner's row says that it has few."""


@dataclass(frozen=True)
class Sample:
    """Values of a policy in one case; one entry a run, all arrays of shape (n,).

    Attributes:
        values: The values, such as scores.
        seeds: Evaluation seed of each run: what the environment's traffic was drawn from.
        trainings: Training that each run scored; all equal where nobody learned.
        plans: Digest of the plan that each run met; empty where plans have none.
    """

    values: FloatArray
    seeds: IntArray
    trainings: IntArray
    plans: npt.NDArray[np.str_] = field(default_factory=lambda: np.empty(0, np.str_))

    @property
    def mean(self) -> float:
        """The mean, each training counting the same; NaN of nothing."""
        units = units_of(self.values, self.trainings)
        return float(units.mean()) if units.size else math.nan

    def in_order(self) -> tuple[IntArray, bytes]:
        """Return where the runs are by training and seed, and what is equal where these are."""
        order = np.lexsort((self.seeds, self.trainings))
        return order, np.concatenate([self.trainings[order], self.seeds[order]]).tobytes()


Samples: TypeAlias = Mapping[str, Sample]
"""By case."""


@dataclass(frozen=True)
class Stratum:
    """What chance has drawn independently of all other strata.

    Attributes:
        units: Trainings where there are several of them, or else seeds, (u,).
        cases: The cases that share them.
        of_run: Unit of each run of these cases, (n,) each.
    """

    units: IntArray
    cases: tuple[str, ...]
    of_run: Mapping[str, IntArray]


def strata_of(samples: Samples) -> list[Stratum]:
    """Return what is drawn independently: trainings, or else the seeds of cases that share them.

    Args:
        samples: Runs by case, of one or more each.
    """
    trainings = np.unique(np.concatenate([one.trainings for one in samples.values()]))
    if len(trainings) > 1:
        of_run = {case: one.trainings for case, one in samples.items()}
        return [Stratum(trainings, tuple(samples), of_run)]
    groups: dict[bytes, list[str]] = {}
    for case, sample in samples.items():
        groups.setdefault(sample.in_order()[1], []).append(case)
    return [
        Stratum(np.unique(samples[own[0]].seeds), tuple(own), {c: samples[c].seeds for c in own})
        for own in groups.values()
    ]


Compare: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]


def training_of(record: Record) -> int:
    """Return which training a run scored, by its seed; 0 where nobody learned.

    Args:
        record: Record of the run.
    """
    return int((record.get("training") or {}).get("seed") or 0)


def sample_of(records: Records, metric: str, factor: float = 1.0) -> Sample:
    """Return a metric of a policy's runs in one case, of those that measured it.

    Args:
        records: Records of the runs.
        metric: Name of the metric.
        factor: What its values are multiplied by.
    """
    found = [(r, factor * float(r["metrics"].get(metric, math.nan))) for r in records]
    found = [(record, value) for record, value in found if math.isfinite(value)]
    plans = [str((record.get("plan") or {}).get("digest", "")) for record, _ in found]
    return Sample(
        np.array([value for _, value in found], np.float64),
        np.array([int(record["seed"]) for record, _ in found], np.int64),
        np.array([training_of(record) for record, _ in found], np.int64),
        np.array(plans if all(plans) else [], np.str_),
    )


def units_of(values: FloatArray, trainings: IntArray) -> FloatArray:
    """Return values that chance has drawn independently: a mean a training where there are several.

    Runs of one training are alike, so that they say little of what another training would do.

    Args:
        values: A value a run, (n,).
        trainings: Training that each run scored, (n,).

    Returns:
        The values themselves where there is one training.

    >>> units_of(np.array([1.0, 2.0, 3.0, 4.0]), np.array([7, 9, 7, 9])).tolist()
    [2.0, 3.0]
    """
    _, of_run, counts = np.unique(trainings, return_inverse=True, return_counts=True)
    if len(counts) <= 1:
        return values
    means: FloatArray = np.bincount(of_run, values) / counts
    return means


def how_many(records: Records) -> str:
    """Say how many seeds and trainings a row is of, and whether these are few.

    Args:
        records: Records of a policy's runs.

    >>> how_many([{"seed": 0}, {"seed": 1}])
    '2, few'
    """
    seeds = len({record["seed"] for record in records})
    trainings = {training_of(record) for record in records if record.get("training")}
    said = [_counted(seeds, LEAST_SEEDS, "")]
    if trainings:
        word = " training" if len(trainings) == 1 else " trainings"
        said.append(_counted(len(trainings), LEAST_TRAININGS, word))
    return "; ".join(said)


def _counted(number: int, least: int, word: str) -> str:
    return f"{number}{word}" if number >= least else f"{number}{word}, few"


def paired(own: Sample, other: Sample, compare: Compare) -> Sample:
    """Return what a comparison says of each pair of runs with the same seed.

    Runs that met different plans all the same, as by another version, are no pair.

    Args:
        own: Runs of a policy.
        other: Runs of another.
        compare: From the values of both, (m,) each, to one a pair, (m,).
    """
    if np.array_equal(own.seeds, other.seeds):
        at = there = np.arange(len(own.seeds))
    else:
        _, at, there = np.intersect1d(own.seeds, other.seeds, return_indices=True)
    if own.plans.size and other.plans.size:
        is_same = own.plans[at] == other.plans[there]
        at, there = at[is_same], there[is_same]
    trainings = own.trainings[at]
    if (trainings == trainings[:1]).all():
        # Only the other learned, or neither.
        trainings = other.trainings[there]
    return Sample(compare(own.values[at], other.values[there]), own.seeds[at], trainings)


def differences(own: Samples, other: Samples) -> dict[str, Sample]:
    """Return how much more a policy has than another, run by run with the same case and seed.

    Args:
        own: Runs of the policy.
        other: Runs of the other.
    """
    return {c: paired(own[c], other[c], np.subtract) for c in own if c in other}


def improvements(own: Samples, other: Samples) -> dict[str, Sample]:
    """Return for each pair of runs 1 where the policy has more, 0 where less, 1/2 for equals.

    `mean_of_cases` of it is the probability that the policy does better than the other on a case,
    a training and traffic drawn at random.

    Args:
        own: Runs of the policy.
        other: Runs of the other.
    """
    return {c: paired(own[c], other[c], _wins) for c in own if c in other}


def _wins(mine: FloatArray, its: FloatArray) -> FloatArray:
    won: FloatArray = (np.sign(mine - its) + 1) / 2
    return won
