"""Intervals of means: what they cover, and what they are where the bootstrap knows nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dcgym.suites.intervals import Interval, beside, bootstrap_95, student_95

Draw: TypeAlias = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]
SAMPLES = 800
# The distribution and its mean.
DRAWS: dict[str, tuple[Draw, float]] = {
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "gamma": (lambda rng, n: rng.gamma(0.5, size=n), 0.5),
    "normal": (lambda rng, n: rng.normal(3.0, size=n), 3.0),
}


def coverage(name: str, n: int) -> tuple[float, float]:
    """Return in which part of samples the bootstrap's interval, and Student's, hold the mean."""
    draw, true = DRAWS[name]
    rng = np.random.default_rng(7)
    hits = np.zeros(2)
    for _ in range(SAMPLES):
        values = draw(rng, n).tolist()
        found = bootstrap_95(values)
        mean, half = student_95(values)
        hits += (found.low <= true <= found.high, abs(mean - true) <= half)
    one, other = hits / SAMPLES
    return float(one), float(other)


@pytest.mark.parametrize(
    ("name", "n", "students"),
    [
        ("exponential", 10, 0.92),
        ("exponential", 20, 0.93),
        ("gamma", 10, 0.89),
        ("gamma", 20, 0.91),
    ],
)
def test_means_of_skewed_values_are_covered_where_students_t_covers_too_few(
    name: str, n: int, students: float
) -> None:
    drawn, student = coverage(name, n)
    assert 0.92 <= drawn <= 0.97
    assert student < students
    assert drawn - student > 0.02


@pytest.mark.parametrize("n", [10, 20])
def test_means_of_normal_values_are_covered_as_before(n: int) -> None:
    drawn, student = coverage("normal", n)
    assert 0.93 <= drawn <= 0.97
    assert abs(drawn - student) < 0.02


@pytest.mark.parametrize("n", [5, 8, 40])
def test_the_interval_is_the_one_of_its_definition(n: int) -> None:
    values = np.random.default_rng(n).gamma(2.0, size=n)
    # The definition in a loop, with draws of its own.
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(n)
    rng = np.random.default_rng(100 + n)
    found = []
    for _ in range(20_000):
        drawn = rng.choice(values, n)
        spread = drawn.std(ddof=1) / math.sqrt(n)
        found.append((drawn.mean() - mean) / spread if spread else math.inf)
    low, high = np.quantile(found, (0.025, 0.975), method="inverted_cdf")
    own = bootstrap_95(values)
    # Quantiles of as many resamples scatter by some hundredths; those of five values by more.
    near = (0.6 if n == 5 else 0.15) * error
    assert own.mean == pytest.approx(mean)
    assert own.low == pytest.approx(mean - high * error, abs=near)
    assert own.high == pytest.approx(mean - low * error, abs=near)


def test_the_longer_side_is_that_of_the_longer_tail() -> None:
    values = [1.0, 2.0, 2.5, 3.0, 3.5, 4.0, 9.0, 15.0]
    right = bootstrap_95(values)
    assert right.high - right.mean > 1.5 * (right.mean - right.low) > 0
    # A mirror changes the sides, as far as the same resamples are those of other values.
    left = bootstrap_95([-value for value in values])
    assert left.mean == -right.mean
    assert (-left.high, -left.low) == pytest.approx((right.low, right.high), rel=0.1)
    assert bootstrap_95([1000 * value for value in values]) == pytest.approx(
        [1000 * one for one in right]
    )


def test_the_order_of_values_does_not_matter() -> None:
    values = np.random.default_rng(3).lognormal(size=17)
    found = {bootstrap_95(np.random.default_rng(seed).permutation(values)) for seed in range(20)}
    assert len(found) == 1


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0],
        [1.0, 2.0, 4.0],
        [1.0, 2.0, 4.0, 9.0],
        # A third of all resamples has only zeros; of the last, only values that are almost equal.
        [0.0, 0.0, 0.0, 0.0, 5.0],
        [0.0, 1e-9, 2e-9, 3e-9, 5.0],
        [*[0.0] * 29, 7.0],
    ],
)
def test_the_interval_is_students_where_resamples_tell_nothing(values: list[float]) -> None:
    n, mean, error = len(values), np.mean(values), stats.sem(values)
    low, high = stats.t.interval(0.95, n - 1, mean, error)
    assert bootstrap_95(values) == pytest.approx((mean, low, high))


@pytest.mark.parametrize("n", [2, 5, 12])
def test_equal_values_have_equal_ends(n: int) -> None:
    # A tenth has no exact sum.
    assert bootstrap_95([0.1] * n) == (0.1, 0.1, 0.1)


def test_values_that_were_not_measured_are_left_out() -> None:
    values = [1.0, 2.0, 4.0, 9.0, 16.0]
    assert bootstrap_95([math.nan, *values, math.inf]) == bootstrap_95(values)
    assert student_95([1.0, math.nan, 3.0])[0] == 2.0


def test_one_value_has_a_mean_and_no_interval() -> None:
    mean, half = student_95([5.0])
    assert mean == 5.0 and math.isnan(half)
    mean, low, high = bootstrap_95([5.0])
    assert mean == 5.0 and math.isnan(low) and math.isnan(high)
    assert all(map(math.isnan, (*student_95([]), *bootstrap_95([math.nan]))))


@pytest.mark.parametrize(("n", "quantile"), [(2, 12.706), (3, 4.303), (31, 2.042), (61, 2.000)])
def test_intervals_of_differences_are_those_of_students_table(n: int, quantile: float) -> None:
    values = np.arange(n, dtype=np.float64)
    mean, half = student_95(values)
    assert mean == (n - 1) / 2
    assert half == pytest.approx(quantile * values.std(ddof=1) / math.sqrt(n), rel=3e-4)


def test_both_sides_are_written_once_where_they_look_alike() -> None:
    assert Interval(2.0, 1.5, 2.5).text() == "2 ± 0.5"
    assert Interval(2.0, 1.5, 3.3).text(".2f", ".2f") == "2.00 -0.50/+1.30"
    assert Interval(2.0, math.nan, math.nan).text() == "2"
    assert (beside("0.1", "0.1"), beside("0.1", "0.2")) == ("±0.1", "-0.1/+0.2")
