"""How the measured tables of pages are written from the results of suites, in Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dcgym.backends.records import Record
from dcgym.suites.intervals import bootstrap_95
from dcgym.suites.reports.cells import text_of
from dcgym.suites.reports.layout import layout_of, policies_of, runs_of
from dcgym.suites.reports.numbers import spread_of, written
from dcgym.suites.reports.scores import SCORE_TITLES, score_cells
from dcgym.suites.results import SUITE_FILE, Records, load_records, read_json
from dcgym.suites.samples import Sample, paired, sample_of, units_of
from dcgym.suites.scores import find_scores
from dcgym.suites.shapes import Check, Term, shape_from_dict
from dcgym.suites.verdicts import Finding, judge

__all__ = [
    "Cells",
    "Gap",
    "Spread",
    "Writer",
    "markdown",
    "mean",
    "pivot",
    "policies",
    "policy_rows",
    "provenance",
    "scores",
    "shapes",
    "short",
]

Row = Sequence[str]
Writer = Callable[[Path], str]
"""Writes a table of the results in a folder."""


def markdown(rows: Iterable[Row]) -> str:
    """Return a table, its first row the heading.

    Args:
        rows: The rows, all of the same length.
    """
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * (lines[0].count(" | ") + 1) + "|", *lines[1:]])


def short(value: float, digits: int = 2) -> str:
    """Return a number with some digits, or all of those before the point; a dash for NaN.

    Args:
        value: The number.
        digits: How many.
    """
    if math.isnan(value):
        return "-"
    if value == 0:
        return "0"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def mean(runs: Records, metric: str, sizes: str = "") -> float:
    """Return a metric's mean over runs; NaN where one of them has not measured it.

    Args:
        runs: Records of the runs.
        metric: Name of the metric.
        sizes: The size class of flows, if the metric is of one.
    """
    values = [float(_metrics(run, sizes).get(metric, math.nan)) for run in runs]
    return math.fsum(values) / len(values) if values else math.nan


def _chosen(records: Records, case: str, policy: str) -> list[Record]:
    return [run for run in runs_of(records, policy) if run["scenario"] == case]


def _metrics(run: Record, sizes: str) -> Record:
    if not sizes:
        return run["metrics"]
    return next((row for row in run.get("flow_sizes", ()) if row["sizes"] == sizes), {})


@dataclass(frozen=True)
class Cells:
    """A column of a table: means over the seeds, one behind the other.

    Attributes:
        title: Its heading.
        case: Name of the case; with ``{}`` the row's name stands there.
        metrics: Names of the metrics.
        divisor: What a metric is divided by.
        sizes: The size class of flows, if the metrics are of one.
        policy: The policy; empty for that of the row.
        in_brackets: A metric that follows in brackets where it is not 0.
        digits: Digits of a number.
    """

    title: str
    case: str
    metrics: Sequence[str]
    divisor: float = 1.0
    sizes: str = ""
    policy: str = ""
    in_brackets: str = ""
    digits: int = 2

    def write(self, records: Records, row: str) -> str:
        """Return the cell of a row, with a star where a run's fidelity is invalid.

        Args:
            records: Records of all runs.
            row: Name of the row.
        """
        case, policy = self.case.format(row), self.policy or row
        runs = _chosen(records, case, policy)
        if not runs:
            return ""
        means = [mean(runs, one, self.sizes) / self.divisor for one in self.metrics]
        text = ", ".join(short(value, self.digits) for value in means)
        if self.in_brackets and (more := mean(runs, self.in_brackets)):
            text += f" ({short(more)})"
        is_invalid = any(run["fidelity"]["status"] == "invalid" for run in runs)
        return text + ("*" if is_invalid else "")


@dataclass(frozen=True)
class Spread:
    """A column of a table: the mean of a metric over the seeds, with its 95 % interval.

    Attributes:
        title: Its heading.
        case: Name of the case.
        metric: Name of the metric.
        divisor: What the metric is divided by.
    """

    title: str
    case: str
    metric: str
    divisor: float = 1.0

    def write(self, records: Records, row: str) -> str:
        """Return the cell of a row.

        Args:
            records: Records of all runs.
            row: Name of the row.
        """
        return _mean(self.sample(records, row))

    def sample(self, records: Records, policy: str) -> Sample:
        """Return the metric of each run.

        Args:
            records: Records of all runs.
            policy: Name of the policy.
        """
        return sample_of(_chosen(records, self.case, policy), self.metric, 1 / self.divisor)


@dataclass(frozen=True)
class Gap(Spread):
    """A column of a table: how far a metric is above another policy's, seed by seed.

    Attributes:
        over: The other policy.
    """

    over: str = ""

    def write(self, records: Records, row: str) -> str:
        """Return the mean of the paired differences with its 95 % interval.

        Args:
            records: Records of all runs.
            row: Name of the row.
        """
        if row == self.over:
            return "0"
        own, other = (self.sample(records, policy) for policy in (row, self.over))
        return _mean(paired(own, other, np.subtract))


def _mean(sample: Sample) -> str:
    units = units_of(sample.values, sample.trainings)
    return bootstrap_95(units).text(".2f", ".2f") if units.size else ""


def pivot(heading: str, rows: Sequence[str], columns: Sequence[Cells | Spread]) -> Writer:
    """Return a writer of a table with a row for each policy, or whatever the columns make of it.

    Args:
        heading: What stands over the names of the rows.
        rows: Their names; those without a run are left out.
        columns: The columns.
    """

    def write(folder: Path) -> str:
        records = load_records(folder)
        found = [[f"`{row}`", *(column.write(records, row) for column in columns)] for row in rows]
        kept = [cells for cells in found if any(cells[1:])]
        return markdown([[heading, *(column.title for column in columns)], *kept])

    return write


def policies(*metrics: str) -> Writer:
    """Return a writer of a row for each policy of a suite with one case.

    Args:
        *metrics: The only metrics of the task's columns; all if none is named.
    """
    return lambda folder: policy_rows(load_records(folder), {}, metrics)


def policy_rows(records: Records, roles: Mapping[str, str], metrics: Sequence[str] = ()) -> str:
    """Return a row for each policy of some runs, with intervals over the seeds.

    Args:
        records: Records of runs in one environment.
        roles: What a policy is here, in brackets behind its name.
        metrics: The only metrics of the task's columns; all if empty.
    """
    columns = [one for one in layout_of(records).columns if one.metric in metrics or not metrics]
    rows = [["policy", *(column.title for column in columns)]]
    for policy in policies_of(records):
        runs, role = runs_of(records, policy), roles.get(policy, "")
        cells = [" ".join(filter(None, written(spread_of(runs, one), one))) for one in columns]
        rows.append([f"`{policy}`{f' ({role})' if role else ''}", *cells])
    return markdown(rows)


def scores(folder: Path) -> str:
    """Return the normalised scores of a suite, a table for each metric.

    `earliest-finish` is left out: it knows what servers do, as the reference does, so that the
    leader is the best of those that a real balancer can run.

    Args:
        folder: Folder of the results.
    """
    records = [run for run in load_records(folder) if run["policy"] != "earliest-finish"]
    parts = []
    for board in find_scores(folder, records):
        texts = [[*map(text_of, cells)] for cells in score_cells(board)]
        rows = [[f"`{row[0]}`", *row[1:SCORED]] for row in texts]
        parts += [f"`{board.metric}`:", markdown([SCORE_TITLES[:SCORED], *rows])]
    return "\n\n".join(parts)


SCORED = 7
"""Columns of scores that a page shows."""


def shapes(folder: Path) -> str:
    """Return the verdicts on the expected shapes of a suite.

    Args:
        folder: Folder of the results.
    """
    records = load_records(folder)
    rows = [["shape", "verdict", "what decided"]]
    for one in read_json(folder / SUITE_FILE)["shapes"]:
        shape = shape_from_dict(one)
        verdict = judge(shape, records)
        found = [
            _found(check, finding)
            for check, finding in zip(shape.checks, verdict.findings, strict=True)
            if finding in verdict.decisive
        ]
        more = len(found) - LISTED
        said = "; ".join(found[:LISTED]) + (f"; and {more} more" if more > 0 else "")
        rows.append([shape.claim, verdict.verdict, said])
    return markdown(rows)


LISTED = 2
"""Findings that a row shows."""
UNITS = (("_us_", 1e3, " ms"), ("_bytes_", 1e3, " KB"), ("_bps", 1e6, " Mbit/s"))
"""Parts of the names of metrics, and what their numbers are shown in."""


def _found(check: Check, finding: Finding) -> str:
    """Return both sides of a check, and their difference with half of its 95 % interval."""
    left, right, name = check.left, check.right, check.left.metric
    divisor, unit = next(((by, unit) for part, by, unit in UNITS if part in name), (1.0, ""))
    first, second, difference = (
        short(value / divisor, 3) for value in (finding.left, finding.right, finding.difference)
    )
    half = short(finding.half_width / divisor)
    if not isinstance(right, Term):
        return f"{left.case}: {first}{unit} ± {half}"
    is_same = left.policy == right.policy
    names = [term.case if is_same else f"`{term.policy}`" for term in (left, right)]
    if right.factor != 1:
        names[1] = f"{right.factor:g} x {names[1]}"
    where = "" if is_same else f"{left.case}: "
    sides = f"{names[0]} {first}, {names[1]} {second}{unit}"
    return f"{where}{sides}, difference {difference} ± {half}"


def provenance(command: str, records: Records) -> str:
    """Say which command made the runs, at which commit, how many, and how true they are.

    Args:
        command: The command.
        records: Records of the runs.
    """
    ordered = sorted(records, key=lambda run: str(run["finished"]))
    commits = dict.fromkeys(str(run["machine"]["git_commit"])[:7] for run in ordered)
    seeds = len({run["seed"] for run in records})
    trained = {str(run["training"]["checkpoint"]) for run in records if run.get("training")}
    first, *_, last = [*commits] * 2
    tree = f"commit {first}" if first == last else f"commits {first} to {last}"
    said = f"`{command}` at {tree}: {_count(len(records), 'run')}"
    said += f", {_count(seeds, 'seed')}"
    if trained:
        said += f", {_count(len(trained), 'trained policy', 'trained policies')}"
    states = Counter(str(run["fidelity"]["status"]) for run in records)
    if set(states) != {"ok"}:
        said += "; fidelity " + ", ".join(f"{states[one]} {one}" for one in sorted(states))
    return f"{said}."


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
