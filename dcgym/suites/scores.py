"""Normalised scores of policies over all cases of a suite: 0 is random, 1 is who knows most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dcgym.config import check_in, check_keys
from dcgym.envs.factory import newest_id, policy_family
from dcgym.errors import ConfigError, DcgymError
from dcgym.suites.aggregates import (
    Estimate,
    estimate,
    mean_of_cases,
    pooled,
    probability,
    quantile,
)
from dcgym.suites.comparisons import Comparison, all_pairs, samples_of
from dcgym.suites.intervals import student_95
from dcgym.suites.results import SUITE_FILE, Records, read_json, write_json
from dcgym.suites.samples import (
    LEAST_SEEDS,
    LEAST_TRAININGS,
    Sample,
    improvements,
    paired,
)
from dcgym.tasks.common.meanings import MEANINGS

__all__ = [
    "SCORES_FILE",
    "Scoreboard",
    "Scoring",
    "Standing",
    "find_scores",
    "score_metric",
    "write_scores",
]

SCORES_FILE = "scores.json"
"""The scores, in the folder of the results."""


@dataclass(frozen=True)
class Scoring:
    """What a suite's scores are made of.

    Attributes:
        metrics: Names of metrics; each is scored for itself.
        low: Policy whose mean in a case is the score 0.
        high: Policy whose mean in a case is the score 1.
    """

    metrics: tuple[str, ...]
    low: str
    high: str

    def __post_init__(self) -> None:
        """Check that every metric has a better end."""
        if not self.metrics:
            raise ConfigError("scoring.metrics", (), "one metric or more")
        for metric in self.metrics:
            check_in(
                "scoring.metrics", metric, [name for name, (end, _) in MEANINGS.items() if end]
            )


# No queues: random shares choke hosts, and their queues are often shorter than the fair share's.
# The default reward has goodput and queues in one.
_NETWORK = Scoring(("goodput_bps", "fct_us_p99", "reward_mean"), "random", "fair-share")
SCORINGS: Mapping[str, Scoring] = {
    "balancing": Scoring(("fct_us_mean", "fct_us_p99"), "random", "oracle"),
    "congestion": _NETWORK,
    "joint": _NETWORK,
}
"""By family of policies, where a suite says nothing."""


@dataclass(frozen=True)
class Standing:
    """A policy's scores in a metric.

    Attributes:
        policy: Its name.
        iqm: Interquartile mean over the runs of all cases.
        mean: Mean of the cases' means.
        lower_tenth: The score that nine of ten runs of all cases reach.
        improvement: Probability that it does better than the leader, the same case and seed.
        gain: By how much its score is above the leader's, pair by pair.
        by_case: Mean score in each case.
        cases: Cases in which it has a score.
        seeds: Least number of evaluation seeds of a case.
        trainings: Trainings that were scored; 0 where nobody learned.
    """

    policy: str
    iqm: Estimate
    mean: Estimate
    lower_tenth: Estimate
    improvement: Estimate
    gain: Comparison
    by_case: Mapping[str, float]
    cases: int
    seeds: int
    trainings: int

    @property
    def remark(self) -> str:
        """What makes the intervals doubtful; empty where nothing does."""
        found = []
        if self.seeds < LEAST_SEEDS:
            found.append(f"too few seeds: {self.seeds} of {LEAST_SEEDS}")
        if 0 < self.trainings < LEAST_TRAININGS:
            found.append(f"too few trainings: {self.trainings} of {LEAST_TRAININGS}")
        return "; ".join(found)


@dataclass(frozen=True)
class Scoreboard:
    """The scores of all policies in a metric.

    Attributes:
        metric: Name of the metric.
        low: Policy whose score is 0.
        high: Policy whose score is 1.
        leader: Policy of the best interquartile mean but `low` and `high`, which the others are
            compared with.
        standings: One a policy, the best interquartile mean first.
        left_out: Cases in which `high` is not better than `low` beyond noise: they have no scale.
        samples: The scores of all runs, by policy and case.
    """

    metric: str
    low: str
    high: str
    leader: str
    standings: tuple[Standing, ...]
    left_out: tuple[str, ...]
    samples: Mapping[str, Mapping[str, Sample]]


def find_scores(folder: Path, records: Records) -> list[Scoreboard]:
    """Return the scores of a folder's suite; none where one of the references was not run.

    Args:
        folder: Folder of the suite's results.
        records: Records of its runs.
    """
    scoring = _scoring_of(folder, records)
    names = {str(record["policy"]) for record in records}
    if scoring is None or not {scoring.low, scoring.high} < names:
        return []
    boards = (score_metric(records, metric, scoring) for metric in scoring.metrics)
    return [board for board in boards if board is not None]


def write_scores(folder: Path, records: Records) -> list[Scoreboard]:
    """Write the scores beside the results, where there are any, and return them.

    Args:
        folder: Folder of the suite's results.
        records: Records of its runs.
    """
    boards = find_scores(folder, records)
    if boards:
        rows = []
        for board in boards:
            standings = [{**asdict(one), "remark": one.remark} for one in board.standings]
            known = {name: getattr(board, name) for name in ("metric", "low", "high", "leader")}
            rows.append({**known, "left_out": list(board.left_out), "standings": standings})
        write_json(folder / SCORES_FILE, rows)
    return boards


def score_metric(records: Records, metric: str, scoring: Scoring) -> Scoreboard | None:
    """Return the scores of all policies in a metric; None where no case has a scale.

    Args:
        records: Records of runs.
        metric: Name of the metric.
        scoring: The references.
    """
    sign = 1.0 if MEANINGS[metric][0] == "high" else -1.0
    kept = tuple(
        _Kept(policy, case, *(tuple(getattr(sample, name).tolist()) for name in _Kept._fields[2:]))
        for policy, cases in samples_of(records, metric, sign).items()
        for case, sample in cases.items()
        if sample.values.size
    )
    learners = frozenset(str(record["policy"]) for record in records if record.get("training"))
    return _scoreboard(kept, learners, metric, scoring)


class _Kept(NamedTuple):
    """A sample of a policy in a case, more being better, as a key of a cache can hold it."""

    policy: str
    case: str
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    trainings: tuple[int, ...]
    plans: tuple[str, ...]

    def sample(self) -> Sample:
        """Return it as it was."""
        seeds, trainings = (np.array(own, np.int64) for own in (self.seeds, self.trainings))
        return Sample(np.array(self.values), seeds, trainings, np.array(self.plans, np.str_))


# Files, page and terminal ask for the same; resampling takes seconds for suites of many cases.
@lru_cache(maxsize=8)
def _scoreboard(
    kept: tuple[_Kept, ...], learners: frozenset[str], metric: str, scoring: Scoring
) -> Scoreboard | None:
    measured: dict[str, dict[str, Sample]] = {}
    for one in kept:
        measured.setdefault(one.policy, {})[one.case] = one.sample()
    low, high = measured.get(scoring.low, {}), measured.get(scoring.high, {})
    scales = {case: _scale(low[case], high[case]) for case in low if case in high}
    known = {case: scale for case, scale in scales.items() if scale is not None}
    if not known:
        return None
    samples = {
        policy: {
            case: replace(own, values=(own.values - zero) / width)
            for case, (zero, width) in known.items()
            if (own := cases.get(case)) is not None
        }
        for policy, cases in measured.items()
    }
    samples = {policy: cases for policy, cases in samples.items() if cases}
    iqms = {policy: estimate(cases, pooled) for policy, cases in samples.items()}
    ranking = sorted(iqms, key=lambda policy: -iqms[policy].value)
    # Who was not scored in all cases may have met the easier ones.
    whole = [policy for policy in ranking if samples[policy].keys() == known.keys()]
    others = [policy for policy in whole if policy not in (scoring.low, scoring.high)]
    leader = others[0] if others else whole[0]
    gains = all_pairs(samples)
    standings = tuple(
        _standing(iqms[policy], samples, gains[policy, leader], policy in learners)
        for policy in ranking
    )
    left_out = tuple(case for case in scales if case not in known)
    return Scoreboard(metric, scoring.low, scoring.high, leader, standings, left_out, samples)


def _standing(
    iqm: Estimate,
    all_samples: Mapping[str, Mapping[str, Sample]],
    gain: Comparison,
    is_learner: bool,
) -> Standing:
    samples = all_samples[gain.policy]
    numbers = {int(one) for sample in samples.values() for one in sample.trainings}
    return Standing(
        gain.policy,
        iqm,
        estimate(samples, mean_of_cases),
        estimate(samples, quantile(0.1)),
        probability(improvements(samples, all_samples[gain.other])),
        gain,
        {case: float(sample.values.mean()) for case, sample in samples.items()},
        len(samples),
        min(len(np.unique(sample.seeds)) for sample in samples.values()),
        len(numbers) if is_learner else 0,
    )


def _scale(low: Sample, high: Sample) -> tuple[float, float] | None:
    """Return the value of the score 0 and the width of 1; None where they are told by noise."""
    gaps = paired(high, low, np.subtract).values
    mean, half = student_95(gaps.tolist())
    # Of two or three seeds the interval is so wide that it would leave out the clearest cases.
    is_clear = gaps.size > 0 and bool((gaps > 0).all())
    if not is_clear and not mean > half:
        return None
    return float(low.values.mean()), float(high.values.mean() - low.values.mean())


def _scoring_of(folder: Path, records: Records) -> Scoring | None:
    told = (read_json(folder / SUITE_FILE) or {}).get("scoring")
    if told is not None:
        check_keys(told, ("metrics", "low", "high"), "scoring")
        return Scoring(tuple(told["metrics"]), str(told["low"]), str(told["high"]))
    try:
        return SCORINGS.get(policy_family(newest_id(records[0]["env"])))
    except DcgymError:
        # Results outlive the package of their environment.
        return None
