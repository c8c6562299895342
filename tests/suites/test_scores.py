"""Scores over many cases: by hand, by enumeration, and against SciPy."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.cli.scores import print_scores
from dcgym.errors import ConfigError
from dcgym.suites import Suite, Training, balancing_quick
from dcgym.suites.aggregates import (
    estimate,
    interquartile_mean,
    mean_of_cases,
    performance_profile,
    pooled,
    resample,
)
from dcgym.suites.matrix import Matrix, Run
from dcgym.suites.progress import progress_bars
from dcgym.suites.reports.scores import scores_section
from dcgym.suites.results import SUITE_FILE, write_json
from dcgym.suites.samples import Sample, differences, improvements
from dcgym.suites.scores import SCORES_FILE, Scoring, find_scores, score_metric, write_scores
from dcgym.suites.suite import MOST_RUNS
from dcgym.suites.workers import Workers
from tests.support.pages import pictures_of

SCORING = Scoring(("fct_us_mean",), "random", "oracle")


def sample(*values: float, trainings: tuple[int, ...] | None = None) -> Sample:
    numbers = trainings or (0,) * len(values)
    return Sample(np.array(values), np.arange(len(values)), np.array(numbers))


def runs(case: str, **values: list[float]) -> list[dict[str, Any]]:
    """Return a record for each policy and seed."""
    return [
        {
            "env": "dcgym/LoadBalancing-v1",
            "scenario": case,
            "policy": policy,
            "seed": seed,
            "metrics": {"fct_us_mean": value},
        }
        for policy, own in values.items()
        for seed, value in enumerate(own)
    ]


def shares(values: np.ndarray[Any, Any]) -> dict[float, float]:
    """Return which part of some values each distinct one is."""
    return {k: n / len(values) for k, n in Counter(np.round(values, 9).tolist()).items()}


@pytest.mark.parametrize("number", [1, 2, 3, 4, 7, 8, 30])
def test_interquartile_mean_is_scipys_trimmed_mean(number: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(number).normal(size=number)
    expected = stats.trim_mean(values, proportiontocut=0.25, axis=None)
    assert float(interquartile_mean(values)) == pytest.approx(expected, abs=1e-12)


def test_resamples_are_those_of_all_equally_likely_draws_within_each_case() -> None:
    first, second = (1.0, 2.0, 6.0), (10.0, 30.0)
    # 27 draws of the first case times 4 of the second.
    exact = shares(
        np.array(
            [
                (np.mean(one) + np.mean(two)) / 2
                for one in itertools.product(first, repeat=3)
                for two in itertools.product(second, repeat=2)
            ]
        )
    )
    drawn = resample({"a": sample(*first), "b": sample(*second)}, np.random.default_rng(1), 40_000)
    found = shares(mean_of_cases(drawn))
    assert found.keys() == exact.keys()
    # Five standard deviations of a share of 40,000 draws are at most 0.0125.
    assert all(abs(found[value] - exact[value]) < 0.0125 for value in exact)


def test_trainings_are_drawn_first_and_together_for_all_cases() -> None:
    # Two trainings of two runs each; what differs is the training alone.
    own = sample(0.0, 1.0, 0.0, 1.0, trainings=(7, 9, 7, 9))
    drawn = mean_of_cases(resample({"a": own, "b": own}, np.random.default_rng(2), 20_000))
    found = shares(drawn)
    assert found.keys() == {0.0, 0.5, 1.0}
    assert found[0.0] == pytest.approx(0.25, abs=0.02)
    assert found[0.5] == pytest.approx(0.5, abs=0.02)
    # As if one had trained once, four runs would look like four independent ones.
    alone = estimate({"a": replace(own, trainings=np.zeros(4, np.int64))}, mean_of_cases)
    assert (alone.low, alone.high) == (0.0, 1.0)


def test_profile_counts_what_lies_above() -> None:
    samples = {"a": sample(0.1, 0.2, 0.3, 0.4), "b": sample(0.25, 0.9)}
    profile = performance_profile(samples, np.array([0.0, 0.2, 0.25, 0.9]))
    # Half of the four above 0.2 and all of the two: 0.75; equal is not above.
    assert profile[0].tolist() == [1.0, 0.75, 0.5, 0.0]
    assert (profile[1] <= profile[0]).all() and (profile[0] <= profile[2]).all()


def test_improvement_is_that_of_pairs_and_ties_count_half() -> None:
    own = {"a": sample(1.0, 2.0, 3.0), "b": sample(5.0, 5.0), "only": sample(9.0)}
    other = {"a": sample(0.0, 2.0, 9.0), "b": sample(4.0, 4.0, 4.0)}
    found = improvements(own, other)
    assert {case: one.values.tolist() for case, one in found.items()} == {
        "a": [1.0, 0.5, 0.0],
        "b": [1.0, 1.0],
    }
    assert estimate(found, mean_of_cases).value == 0.75
    assert estimate(differences(own, other), mean_of_cases).value == pytest.approx(
        ((1 + 0 - 6) / 3 + 1) / 2
    )


def test_runs_of_different_plans_are_no_pair() -> None:
    plans = [np.array(own) for own in (["p", "q", "r"], ["p", "x", "r"])]
    own, other = (
        replace(sample(*values), plans=digests)
        for values, digests in zip(((1.0, 2.0, 3.0), (0.5, 9.0, 1.0)), plans, strict=True)
    )
    found = differences({"a": own}, {"a": other})["a"]
    assert (found.seeds.tolist(), found.values.tolist()) == ([0, 2], [0.5, 2.0])
    # Pools record no plan: the seed alone says what arrived.
    assert differences({"a": sample(1.0, 2.0)}, {"a": other})["a"].values.tolist() == [0.5, -7.0]


def test_scores_are_scaled_by_the_references_of_each_case() -> None:
    records = [
        *runs("easy", random=[4.0, 4.2], oracle=[2.0, 2.2], sed=[3.0, 3.2], lsq=[2.5, 2.7]),
        *runs("hard", random=[80.0, 90.0], oracle=[30.0, 40.0], sed=[55.0, 65.0], lsq=[80.0, 90.0]),
    ]
    board = score_metric(records, "fct_us_mean", SCORING)
    assert board is not None
    found = {one.policy: one for one in board.standings}
    assert found["random"].mean.value == pytest.approx(0.0)
    assert found["oracle"].mean.value == pytest.approx(1.0)
    assert found["sed"].by_case == pytest.approx({"easy": 0.5, "hard": 0.5})
    assert found["lsq"].by_case == pytest.approx({"easy": 0.75, "hard": 0.0})
    # The middle half of -0.1, 0.1 of hard and 0.7, 0.8 of easy.
    assert found["lsq"].iqm.value == pytest.approx((0.1 + 0.7) / 2)
    assert board.leader == "sed"
    assert found["lsq"].improvement.value == 0.5
    assert found["lsq"].gain.gap.mean == pytest.approx(-0.125)
    assert found["sed"].remark == "too few seeds: 2 of 5"


def test_a_case_without_a_scale_is_left_out() -> None:
    noisy = runs("noisy", random=[4.0, 2.0, 3.0], oracle=[3.0, 2.9, 2.0], sed=[1.0, 1.0, 1.0])
    assert score_metric(noisy, "fct_us_mean", SCORING) is None
    clear = runs("clear", random=[4.0, 4.1, 3.9], oracle=[2.0, 2.0, 2.1], sed=[3.0, 3.0, 3.0])
    board = score_metric([*noisy, *clear], "fct_us_mean", SCORING)
    assert board is not None and board.left_out == ("noisy",)
    assert all([*one.by_case] == ["clear"] for one in board.standings)


def test_who_was_not_scored_everywhere_is_no_leader() -> None:
    records = [
        *runs("a", random=[4.0], oracle=[2.0], sed=[3.0], lsq=[2.1]),
        *runs("b", random=[4.0], oracle=[2.0], sed=[3.0], lsq=[math.nan]),
    ]
    board = score_metric(records, "fct_us_mean", SCORING)
    assert board is not None and board.leader == "sed"


def test_a_learner_with_few_trainings_says_so() -> None:
    records = runs("a", random=[4.0] * 6, oracle=[2.0] * 6, ppo=[3.0, 3.1, 3.2, 3.3, 3.1, 3.0])
    for record in records:
        if record["policy"] == "ppo":
            record["training"] = {"seed": 1_000_000 + record["seed"] % 2, "checkpoint": "x"}
    board = score_metric(records, "fct_us_mean", SCORING)
    assert board is not None
    found = {one.policy: one for one in board.standings}
    assert (found["ppo"].seeds, found["ppo"].trainings) == (6, 2)
    assert found["ppo"].remark == "too few trainings: 2 of 5"
    assert found["random"].remark == ""


def test_scores_are_written_printed_and_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = runs("a", random=[4.0, 4.1], oracle=[2.0, 2.1], sed=[3.0, 3.1])
    # Without a reference there is no scale, and of the references alone nothing to say.
    assert find_scores(tmp_path, records[2:]) == find_scores(tmp_path, records[:4]) == []
    boards = write_scores(tmp_path, records)
    read = json.loads((tmp_path / SCORES_FILE).read_text())
    assert [one["policy"] for one in read[0]["standings"]] == ["oracle", "sed", "random"]
    assert read[0]["standings"][1]["iqm"]["value"] == pytest.approx(0.5)
    print_scores(boards)
    assert "too few seeds: 2 of 5" in capsys.readouterr().out.replace("\n", " ")
    page = scores_section(tmp_path, records)
    assert "too few seeds: 2 of 5" in page and len(pictures_of(page)) == len(boards)


def test_a_suite_chooses_its_references(tmp_path: Path) -> None:
    suite = replace(balancing_quick(), scoring=Scoring(("fct_us_mean",), "ecmp", "sed"))
    write_json(tmp_path / SUITE_FILE, asdict(suite))
    records = runs("a", ecmp=[4.0, 4.1], sed=[2.0, 2.1], lsq=[3.0, 3.1])
    (board,) = find_scores(tmp_path, records)
    assert (board.low, board.high) == ("ecmp", "sed")
    with pytest.raises(ConfigError, match="scoring"):
        Scoring(("fct_us_meen",), "random", "oracle")


def test_trainings_meet_no_seed_of_an_evaluation(tmp_path: Path) -> None:
    base = balancing_quick()
    suite: Suite = replace(base, seeds=6, training=Training(envs=32, trainings=3))
    matrix = Matrix(suite, tmp_path, Workers(), progress_bars())
    specs = [matrix.training(Run("wrong-weights", "ppo", seed)) for seed in range(suite.seeds)]
    seeds = [spec.seed for spec in specs]
    assert len(set(seeds)) == 3 and seeds[:3] == seeds[3:]
    assert min(seeds) > MOST_RUNS
    taken = [seed + copy for seed in sorted(set(seeds)) for copy in range(suite.training.envs)]
    assert len(taken) == len(set(taken))


def test_pooled_runs_of_all_cases() -> None:
    found = estimate({"a": sample(0.0, 1.0), "b": sample(2.0, 3.0)}, pooled)
    assert found.value == 1.5
