"""Paired differences: against SciPy, by hand, and how often chance alone is taken for one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dcgym.errors import ConfigError
from dcgym.suites.comparisons import SURE, all_pairs, compare, from_best, gap_of, holm
from dcgym.suites.reports.differences import differences_section
from dcgym.suites.reports.numbers import gap_cell, spread_of
from dcgym.suites.samples import Sample, differences, how_many
from dcgym.suites.shapes import Check, Shape, Term
from dcgym.suites.verdicts import HOLDS, NOISE, judge
from dcgym.tasks.common.layout import Column

FCT = Column("fct_us_mean", "FCT, ms", 1e3)


def sample(values: Any, first_seed: int = 0, trainings: int = 1) -> Sample:
    numbers = np.arange(len(values))
    return Sample(np.array(values, np.float64), numbers + first_seed, numbers % trainings)


def records(trainings: int = 1, **values: list[float]) -> list[dict[str, Any]]:
    """Return a record for each policy and seed; `ppo` has so many trainings."""
    return [
        {
            "env": "dcgym/LoadBalancing-v1",
            "policy": policy,
            "seed": seed,
            "metrics": {"fct_us_mean": 1e3 * value},
            "training": {"seed": 10**6 + seed % trainings} if policy == "ppo" else None,
        }
        for policy, own in values.items()
        for seed, value in enumerate(own)
    ]


def test_a_gap_of_one_case_is_scipys_paired_test() -> None:
    own, other = np.random.default_rng(1).normal(size=(2, 9))
    found = gap_of(differences({"": sample(own)}, {"": sample(other)}))
    expected = stats.ttest_rel(own, other)
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(
        (low, high)
    )
    assert found.pairs == 9


def test_cases_with_seeds_of_their_own_are_welchs() -> None:
    # The mean of two means is half the difference of one and the other with its sign turned.
    one, other = np.random.default_rng(2).normal(size=7), np.random.default_rng(3).gamma(1, 4, 12)
    found = gap_of({"a": sample(one), "b": sample(other, first_seed=100)})
    expected = stats.ttest_ind(one, -other, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue)
    assert 2 * found.half_width == pytest.approx((high - low) / 2)


def test_cases_with_the_same_seeds_are_one_sample_of_seeds() -> None:
    values = np.random.default_rng(4).normal(size=8)
    alone = gap_of({"a": sample(values)})
    assert gap_of({"a": sample(values), "b": sample(values)}) == alone
    opposite = gap_of({"a": sample(values), "b": sample(1 - values)})
    assert (opposite.mean, opposite.half_width) == pytest.approx((0.5, 0.0), abs=1e-12)


def test_several_trainings_are_what_is_independent() -> None:
    # Eight runs of two trainings: those of one hardly differ.
    values = [0.0, 10.0, 0.1, 10.1, 0.2, 10.2, 0.1, 10.1]
    found = gap_of({"": sample(values, trainings=2)})
    low, high = stats.t.interval(0.95, 1, 5.1, stats.sem([0.1, 10.1]))
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(
        (low, high)
    )
    assert gap_of({"": sample(values)}).half_width < found.half_width / 10


def test_tables_and_verdicts_know_trainings() -> None:
    runs = records(2, sed=[10.3, 10.3, 10.4, 10.2], ppo=[0.0, 10.0, 0.1, 10.1])
    spread = spread_of([run for run in runs if run["policy"] == "ppo"], FCT)
    low, high = stats.t.interval(0.95, 1, 5.05, stats.sem([0.05, 10.05]))
    assert (spread.low, spread.high) == pytest.approx((low, high))
    assert (spread.measured, spread.runs) == (4, 4)
    check = Check(Term("fct_us_mean", "ppo"), "<", Term("fct_us_mean", "sed"))
    assert judge(Shape("s", "c", "own", (check,)), runs).verdict == NOISE
    alone = [{**run, "training": None} for run in runs]
    alike = [{**run, "metrics": {"fct_us_mean": 1.0 + run["seed"]}} for run in alone[4:]]
    assert judge(Shape("s", "c", "own", (check,)), alone[:4] + alike).verdict == HOLDS
    assert how_many(runs[4:]) == "4, few; 2 trainings, few"
    assert how_many(records(5, ppo=[1.0] * 5)) == "5; 5 trainings"


def test_one_pair_or_training_tells_nothing_of_chance() -> None:
    assert math.isnan(gap_of({"": sample([1.0])}).p)
    both = gap_of({"a": sample([1.0, 2.0]), "b": sample([3.0], first_seed=9)})
    assert both.mean == pytest.approx((1.5 + 3.0) / 2) and math.isnan(both.half_width)
    assert gap_of({}).pairs == 0


def test_equal_differences_are_sure_and_none_is_not() -> None:
    assert gap_of({"": sample([2.0, 2.0])}).p == 0.0
    assert gap_of({"": sample([0.0, 0.0])}).p == 1.0


def test_holms_correction_by_hand() -> None:
    # Five values of the documentation of R's p.adjust: 0.01, 0.02, 0.03, 0.04, 0.05.
    values = [0.05, 0.01, math.nan, 0.03, 0.02, 0.04]
    assert math.isnan(holm(values)[2])
    found = [p for p in holm(values) if not math.isnan(p)]
    assert found == pytest.approx([0.09, 0.05, 0.09, 0.08, 0.09])
    assert holm([0.6, 0.9]) == [1.0, 1.0] and holm([]) == []


def test_chance_is_taken_for_a_difference_from_the_best_as_often_as_is_said() -> None:
    """Of eight policies that are the same, none differs from the best in 95 % of all tables."""
    rng = np.random.default_rng(5)
    tables, corrected, each = 400, 0, 0
    for _ in range(tables):
        shared = rng.normal(size=8)
        runs = {str(i): {"": sample(shared + rng.normal(size=8))} for i in range(8)}
        found = from_best(runs, "low")[1:]
        corrected += any(one.p < SURE for one in found)
        each += any(one.gap.p < SURE for one in found)
    # Three standard deviations of a share of 400 are 0.033.
    assert corrected / tables <= 0.05 + 0.033
    assert each / tables > 0.3


def test_differences_are_from_the_best_in_order() -> None:
    runs = records(sed=[2.0, 4.0, 6.1], lsq=[3.0, 5.1, 7.0], ecmp=[9.0, 9.5, 9.9], cut=[0.1])
    found = compare(runs, "fct_us_mean")
    assert [(one.policy, one.other) for one in found] == [
        (p, "sed") for p in ("sed", "lsq", "ecmp")
    ]
    assert found[1].gap.mean == pytest.approx((1.0 + 1.1 + 0.9) / 3 * 1e3)
    assert found[0].gap.mean == 0 and found[0].p == 1
    pairs = all_pairs({policy: {"": sample([1.0, 2.0])} for policy in ("a", "b")})
    assert pairs["a", "b"].gap.mean == -pairs["b", "a"].gap.mean == 0
    assert compare(runs, "reward_mean") == [] == compare([], "fct_us_mean")
    with pytest.raises(ConfigError, match="metric: value 'marks'"):
        compare(runs, "marks")


def test_a_metric_of_one_environment_has_the_better_end_of_its_tables() -> None:
    runs = [
        {**run, "env": "dcgym/AcceleratorBalancing-v0"} | {"metrics": {"latency_ms_mean": value}}
        for run, value in zip(records(a=[0.0] * 3, b=[0.0] * 3), (3, 4, 5, 1, 2, 3), strict=True)
    ]
    assert [one.policy for one in compare(runs, "latency_ms_mean")] == ["b", "a"]


def test_the_page_has_the_differences() -> None:
    runs = records(sed=[2.0, 4.0, 6.1], lsq=[3.0, 5.1, 7.0], ecmp=[9.0, 9.5, 9.9])
    page = differences_section("", [("", runs)], [FCT])
    assert ">best<" in page and "+1.00 ±0.25, p 0.010" in page
    swept = differences_section("load", [("0.5", runs), ("0.9", runs[:3])], [FCT])
    assert swept.count("<td>0.5</td>") == 3 and swept.count("<td>0.9</td>") == 1
    assert differences_section("", [("", runs[:1])], [FCT]) == ""
    assert gap_cell(compare(runs, "fct_us_mean")[2], FCT).text.startswith("+5.4 ±4.0, p ")
