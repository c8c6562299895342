"""What records say of the expected shapes of their suite: holds, fails, or within noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dcgym.suites.comparisons import gap_of
from dcgym.suites.results import SUITE_FILE, Records, read_json, write_json
from dcgym.suites.samples import Sample, differences, paired, sample_of
from dcgym.suites.shapes import Check, Shape, Term, shape_from_dict

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
        half_width: Of its 95 % interval (`dcgym.suites.comparisons.gap_of`); NaN for fewer than
            two seeds.
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
    left = _sample(check.left, records)
    if isinstance(check.right, Term):
        right = _sample(check.right, records)
    else:
        right = replace(left, values=np.full_like(left.values, float(check.right)))
    if isinstance(check.right, Term) and check.right.case != check.left.case:
        # Cases differ in what arrives: the seed alone makes their pairs.
        left, right = (replace(side, plans=left.plans[:0]) for side in (left, right))
    sides = (paired(left, right, lambda own, _: own), paired(left, right, lambda _, its: its))
    gap = gap_of(differences({"": left}, {"": right}))
    verdict = _verdict(check.relation, gap.mean, gap.half_width) if gap.pairs else NOT_RUN
    first, second = (side.mean for side in sides)
    return Finding(str(check), verdict, first, second, gap.mean, gap.half_width, gap.pairs)


def _verdict(relation: str, difference: float, half: float) -> str:
    """Return where the interval of a difference lies; one seed alone decides nothing."""
    if math.isnan(half):
        return NOISE
    margin = -difference if relation.startswith("<") else difference
    low, high = margin - half, margin + half
    if relation.endswith("="):
        return HOLDS if low >= 0 else FAILS if high < 0 else NOISE
    return HOLDS if low > 0 else FAILS if high <= 0 else NOISE


def _sample(term: Term, records: Records) -> Sample:
    """Return a term of each run that measured it."""
    place = (term.case, term.policy)
    own = [run for run in records if (run.get("scenario", ""), run["policy"]) == place]
    return sample_of(own, term.metric, term.factor)
