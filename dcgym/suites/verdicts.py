"""What records say of the expected shapes of their suite: holds, fails, or within noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dcgym.backends.records import Record
from dcgym.suites.intervals import student_95
from dcgym.suites.results import SUITE_FILE, Records, read_json, write_json
from dcgym.suites.shapes import Check, Shape, Term, shape_from_dict
from dcgym.suites.statistics import mean_of

__all__ = [
    "FAILS",
    "HOLDS",
    "NOISE",
    "NOT_RUN",
    "VERDICTS",
    "VERDICTS_FILE",
    "Finding",
    "Verdict",
    "find_verdicts",
    "judge",
    "write_verdicts",
]

HOLDS, FAILS, NOISE, NOT_RUN = "holds", "fails", "within noise", "not run"
VERDICTS = (HOLDS, FAILS, NOISE, NOT_RUN)
"""The interval lies on the right side; on the wrong one; on both; runs are missing."""

VERDICTS_FILE = "verdicts.json"
"""The verdicts, in the folder of the results."""


@dataclass(frozen=True)
class Finding:
    """What the records say of one check.

    Attributes:
        check: The check, as a text.
        verdict: One of `VERDICTS`.
        left: Mean of the left term; NaN where nothing was measured.
        right: Mean of the right term, or the number.
        difference: Mean of left less right, over the seeds that measured both.
        half_width: Of its 95 % interval (Student's t); NaN for fewer than two seeds.
        seeds: Seeds that measured both.
    """

    check: str
    verdict: str
    left: float
    right: float
    difference: float
    half_width: float
    seeds: int

    def __str__(self) -> str:
        if self.verdict == NOT_RUN:
            return f"{self.check}: {NOT_RUN}"
        half = "one seed" if math.isnan(self.half_width) else f"± {self.half_width:.3g}"
        found = f"{self.left:.4g} against {self.right:.4g}, difference {self.difference:.3g} {half}"
        return f"{self.check}: {found}"


@dataclass(frozen=True)
class Verdict:
    """What the records say of a shape.

    Attributes:
        name: Name of the shape.
        claim: What it claims.
        source: Where that was published.
        verdict: ``fails`` if a check does; else ``not run`` if the runs of one are missing; else
            ``within noise`` if one is; else ``holds``.
        findings: What was found for each check.
    """

    name: str
    claim: str
    source: str
    verdict: str
    findings: tuple[Finding, ...]

    @property
    def decisive(self) -> tuple[Finding, ...]:
        """The findings that made the verdict: those with the same one."""
        return tuple(finding for finding in self.findings if finding.verdict == self.verdict)


def judge(shape: Shape, records: Records) -> Verdict:
    """Return what records say of a shape.

    Args:
        shape: The shape.
        records: Records of runs.
    """
    findings = tuple(_find(check, records) for check in shape.checks)
    reached = {finding.verdict for finding in findings}
    verdict = next(one for one in (FAILS, NOT_RUN, NOISE, HOLDS) if one in reached)
    return Verdict(shape.name, shape.claim, shape.source, verdict, findings)


def find_verdicts(folder: Path, records: Records) -> list[Verdict]:
    """Return the verdicts on the shapes of a folder's suite; none where it expects nothing.

    Args:
        folder: Folder of the suite's results.
        records: Records of its runs.
    """
    suite = read_json(folder / SUITE_FILE) or {}
    return [judge(shape_from_dict(one), records) for one in suite.get("shapes", ())]


def write_verdicts(folder: Path, records: Records) -> Sequence[Verdict]:
    """Write the verdicts beside the results, where there are any, and return them.

    Args:
        folder: Folder of the suite's results.
        records: Records of its runs.
    """
    verdicts = find_verdicts(folder, records)
    if verdicts:
        write_json(folder / VERDICTS_FILE, [asdict(one) for one in verdicts])
    return verdicts


def _find(check: Check, records: Records) -> Finding:
    left = _values(check.left, records)
    if isinstance(check.right, Term):
        right = _values(check.right, records)
    else:
        right = dict.fromkeys(left, float(check.right))
    seeds = sorted(left.keys() & right.keys())
    first, second = (mean_of(np.array([side[seed] for seed in seeds])) for side in (left, right))
    difference, half = student_95([left[seed] - right[seed] for seed in seeds])
    verdict = _verdict(check.relation, difference, half) if seeds else NOT_RUN
    return Finding(str(check), verdict, first, second, difference, half, len(seeds))


def _verdict(relation: str, difference: float, half: float) -> str:
    """Return where the interval of a difference lies; one seed alone decides nothing."""
    if math.isnan(half):
        return NOISE
    margin = -difference if relation.startswith("<") else difference
    low, high = margin - half, margin + half
    if relation.endswith("="):
        return HOLDS if low >= 0 else FAILS if high < 0 else NOISE
    return HOLDS if low > 0 else FAILS if high <= 0 else NOISE


def _values(term: Term, records: Records) -> dict[int, float]:
    """Return a term of each seed that measured it."""
    found = {}
    for record in records:
        value = _value(record, term)
        if math.isfinite(value):
            found[int(record["seed"])] = value
    return found


def _value(record: Record, term: Term) -> float:
    if (record.get("scenario", ""), record["policy"]) != (term.case, term.policy):
        return math.nan
    return term.factor * float(record["metrics"].get(term.metric, math.nan))
