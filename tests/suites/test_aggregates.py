"""Intervals of aggregates: SciPy's, rliable's, and how often they hold the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dcgym.suites.aggregates import (
    bca,
    estimate,
    mean_of_cases,
    performance_profile,
    pooled,
    probability,
    quantile,
    resample,
)
from dcgym.suites.samples import Sample, improvements

# Scores of three tasks by eight runs, and what rliable 1.2.0 with arch 7.2.0 says of them: neither
# runs beside pandas 3, which other packages here need.
OWN = np.array(
    [
        *[[0.894, 1.219, 0.54], [0.617, 2.336, 0.652], [1.342, 1.012, 0.632]],
        *[[0.997, 0.648, 0.596], [1.291, 0.37, 2.656], [1.183, 0.779, 0.776]],
        *[[2.008, 0.762, 0.793], [0.262, 0.723, 1.341]],
    ]
)
OTHER = np.array(
    [
        *[[1.089, 0.882, 0.176], [0.552, 1.775, 0.781], [1.406, 0.797, 0.736]],
        *[[0.479, 0.489, -0.02], [1.507, 0.555, 2.155], [1.397, 0.356, 0.918]],
        *[[1.828, 0.312, 0.711], [0.506, 0.769, 0.899]],
    ]
)


def sample(values: npt.ArrayLike, first_seed: int = 0) -> Sample:
    found = np.asarray(values, np.float64)
    return Sample(found, first_seed + np.arange(found.size), np.zeros(found.size, np.int64))


def tasks(scores: npt.NDArray[np.float64]) -> dict[str, Sample]:
    """Return scores as samples of cases that share no seed, as rliable's tasks share none."""
    return {str(task): sample(own, 100 * task) for task, own in enumerate(scores.T)}


def test_aggregates_are_rliables() -> None:
    own, other = tasks(OWN), tasks(OTHER)
    assert estimate(own, pooled).value == pytest.approx(0.86983333)
    assert estimate(own, mean_of_cases).value == pytest.approx(1.017875)
    profile = performance_profile(own, np.linspace(0.0, 2.5, 6))
    expected = [1.0, 0.91666667, 0.375, 0.125, 0.125, 0.04166667]
    assert profile[0] == pytest.approx(expected)
    # It compares every run of a task with every other one's. With a task for each pair it is ours.
    assert probability(improvements(own, other)).value == pytest.approx(0.58333333)


def test_resamples_spread_as_rliables_do() -> None:
    drawn = resample(tasks(OWN), np.random.default_rng(1), 20_000)
    # Its percentile intervals of 20,000 resamples: IQM, mean of the tasks' means.
    for statistic, low, high in ((pooled, 0.71158, 1.09425), (mean_of_cases, 0.80404, 1.26592)):
        found = np.quantile(statistic(drawn), (0.025, 0.975))
        assert found == pytest.approx([low, high], abs=0.02)
    profile = performance_profile(tasks(OWN), np.array([0.0, 0.5, 1.0, 1.5]))
    # Its steps are of a 24th, and ours of 200 resamples.
    assert profile[1] == pytest.approx([1.0, 0.79167, 0.20833, 0.0], abs=0.05)
    assert profile[2] == pytest.approx([1.0, 1.0, 0.58333, 0.29167], abs=0.05)


@pytest.mark.parametrize("cases", [1, 3])
def test_ends_are_scipys_of_the_same_resamples(cases: int) -> None:
    rng = np.random.default_rng(3)
    data = [rng.gamma(1.0, size=8 + 3 * at) for at in range(cases)]

    def mean(*own: Any, axis: int = -1) -> Any:
        return sum(one.mean(axis=axis) for one in own) / cases

    options = {"method": "BCa", "n_resamples": 3000, "vectorized": True, "random_state": rng}
    expected = stats.bootstrap(tuple(data), mean, **options)
    left_out = [
        [mean(*data[:at], np.delete(one, run), *data[at + 1 :]) for run in range(one.size)]
        for at, one in enumerate(data)
    ]
    drawn = expected.bootstrap_distribution
    found = bca(mean(*data), drawn, left_out, reach=stats.norm.ppf(0.975))
    interval = expected.confidence_interval
    assert found == pytest.approx((interval.low, interval.high), rel=1e-12)


def test_cases_with_the_same_seeds_share_a_draw() -> None:
    values = np.random.default_rng(4).normal(size=10)
    alone = estimate({"a": sample(values)}, mean_of_cases)
    # What a seed does it does in both: the runs of the second case tell nothing more.
    assert estimate({"a": sample(values), "b": sample(values)}, mean_of_cases) == alone
    apart = estimate({"a": sample(values), "b": sample(values, first_seed=50)}, mean_of_cases)
    assert apart.high - apart.low < 0.8 * (alone.high - alone.low)


@pytest.mark.parametrize("runs", [5, 10])
def test_intervals_hold_the_truth_where_seeds_are_alike_in_all_cases(runs: int) -> None:
    """Eight cases whose scores correlate by 0.4 over seeds, as those of neighbouring loads do."""
    samples, held, apart = 300, 0, 0
    for number in range(samples):
        rng = np.random.default_rng(1000 + number)
        own = math.sqrt(0.4) * rng.normal(size=runs) + math.sqrt(0.6) * rng.normal(size=(8, runs))
        shared = estimate({str(at): sample(one) for at, one in enumerate(own)}, pooled)
        found = estimate(tasks(own.T), pooled)
        held += shared.low <= 0 <= shared.high
        apart += found.low <= 0 <= found.high
    assert 0.88 <= held / samples <= 0.98
    assert apart / samples < 0.75


def test_quantiles_hold_the_truth() -> None:
    held = 0
    for number in range(300):
        values = np.random.default_rng(number).exponential(size=20)
        found = estimate({"": sample(values)}, quantile(0.5))
        held += found.low <= math.log(2) <= found.high
        assert found.value == pytest.approx(np.median(values))
    assert 0.92 <= held / 300 <= 0.99


def test_pairs_that_all_say_the_same_have_an_exact_end() -> None:
    better = probability(improvements({"": sample([2.0] * 5)}, {"": sample([1.0] * 5)}))
    expected = stats.binomtest(5, 5).proportion_ci(0.95, "exact")
    assert (better.value, better.high) == (1.0, 1.0)
    assert better.low == pytest.approx(expected.low)
    worse = probability(improvements({"": sample([0.0] * 5)}, {"": sample([1.0] * 5)}))
    assert (worse.value, worse.low) == (0.0, 0.0)
    assert worse.high == pytest.approx(1 - expected.low)


def test_one_run_a_case_has_no_interval() -> None:
    found = estimate({"a": sample([1.0]), "b": sample([3.0], 9)}, mean_of_cases)
    assert found.value == 2.0 and math.isnan(found.low) and math.isnan(found.high)
    assert math.isnan(probability(improvements({"": sample([1.0])}, {"": sample([0.0])})).low)
