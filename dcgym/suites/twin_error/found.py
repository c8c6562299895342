"""What a comparison of a twin with the emulation found, and how its numbers are written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dcgym.suites.fidelity import describe_reasons, is_as_good_as, run_names
from dcgym.suites.results import Records
from dcgym.suites.twin_error.comparison import MISSING, OK, VERDICTS, Sample, TwinError
from dcgym.suites.twin_error.quantities import Quantity

__all__ = ["Comparison", "percent", "sample_text"]

# Errors beyond this are another order of magnitude, whatever they are.
MOST_PERCENT = 999.0
MOST_NAMES = 6
# Between a ratio and a difference that are compared with the same tolerance.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        quantities: What was compared.
        errors: A row for each case, policy and quantity.
        records: Records of all runs, those that do not count among them.
        required: Worst fidelity of an emulated run that counts.
        titles: What each case is, by its name.
        left_out: Policies that one of the backends cannot run.
    """

    quantities: Sequence[Quantity]
    errors: Sequence[TwinError]
    records: Records
    required: str = "invalid"
    titles: Mapping[str, str] = field(default_factory=dict)
    left_out: Sequence[str] = ()

    @property
    def cases(self) -> list[str]:
        """Names of the cases, in their order."""
        return list(dict.fromkeys(row.case for row in self.errors))

    def of_case(self, case: str) -> dict[str, dict[str, TwinError]]:
        """Return the rows of a case by policy and metric.

        Args:
            case: Name of the case.
        """
        found: dict[str, dict[str, TwinError]] = {}
        for row in self.errors:
            if row.case == case:
                found.setdefault(row.policy, {})[row.metric] = row
        return found

    def shown(self, case: str) -> list[Quantity]:
        """Return the quantities that some policy has in a case.

        Args:
            case: Name of the case.
        """
        known = {row.metric for row in self.errors if row.case == case}
        return [one for one in self.quantities if one.metric in known]

    def with_verdict(self, verdict: str) -> Iterator[tuple[TwinError, Quantity]]:
        """Yield the rows of a verdict, each with its quantity.

        Args:
            verdict: One of `VERDICTS`.
        """
        known = {one.metric: one for one in self.quantities}
        yield from ((row, known[row.metric]) for row in self.errors if row.verdict == verdict)

    def summary(self) -> str:
        """Say how many rows there are of each verdict."""
        count = Counter(row.verdict for row in self.errors)
        words = {
            "ok": "within tolerance",
            "own spread": "within the emulation's own spread",
            "beyond": "beyond",
            MISSING: MISSING,
        }
        return ", ".join(f"{count[one]} {words[one]}" for one in VERDICTS)

    def notes(self) -> list[str]:
        """Say what does not count, what was not measured and why, and what was left out."""
        lines = []
        poor = [run for run in self.records if not is_as_good_as(run, self.required)]
        if poor:
            names = f"{len(poor)} of {len(self.records)} runs ({run_names(poor)})"
            lines.append(f"Not counted for their fidelity: {names}: {describe_reasons(poor)}.")
        behind = [run for run in self.records if run not in poor and not is_as_good_as(run, "ok")]
        if behind:
            what = f"The machine did not keep up in {len(behind)} of the runs that count"
            lines.append(f"{what}: {describe_reasons(behind)}.")
        lines += self._missing()
        if self.left_out:
            lines.append(
                f"Left out, as the twin or the emulation has none: {', '.join(self.left_out)}."
            )
        return lines

    def _missing(self) -> list[str]:
        """Say what was not measured: rows with the same reason in one line."""
        titles: dict[tuple[str, str, str], list[str]] = {}
        for row, quantity in self.with_verdict(MISSING):
            # Figures of fidelity differ from run to run; the line of what does not count has them.
            why = row.note.partition(":")[0]
            titles.setdefault((row.case, row.policy, why), []).append(quantity.title)
        places: dict[tuple[str, str], list[str]] = {}
        for (case, policy, why), own in titles.items():
            is_all = len(own) == len(self.of_case(case)[policy])
            what = "everything" if is_all else ", ".join(own)
            places.setdefault((what, why), []).append(" ".join(filter(None, (case, policy))))
        return [
            f"Not measured: {what} of {_some(where)}: {why}."
            for (what, why), where in places.items()
        ]


def percent(row: TwinError, quantity: Quantity) -> str:
    """Write an error in per cent; "=" where the difference is below what a recorder resolves.

    Args:
        row: The error.
        quantity: What it is of.
    """
    is_ok = row.verdict == OK
    if math.isnan(row.error) or (is_ok and abs(row.error) > quantity.within + ROUNDING):
        return "=" if is_ok else ">0"
    hundredth = 100 * row.error
    if hundredth > MOST_PERCENT:
        return f">{MOST_PERCENT:.0f}"
    return f"{hundredth:+.{0 if abs(hundredth) >= 9.95 else 1}f}"


def sample_text(sample: Sample, quantity: Quantity) -> str:
    """Write mean and spread in the unit of tables; "-" where nothing was measured.

    Args:
        sample: Mean and spread.
        quantity: What it is of.
    """
    if not sample.runs:
        return "-"
    mean, spread = sample.mean / quantity.divisor, sample.spread / quantity.divisor
    decimals = _decimals(mean)
    text = f"{mean:.{decimals}f}"
    return text if math.isnan(spread) else f"{text} ± {spread:.{decimals}f}"


def _decimals(value: float) -> int:
    """Return the decimals that show three digits and more; none of a plain 0."""
    size = abs(value)
    return 0 if size >= 1000 or size == 0 else 1 if size >= 100 else 2 if size >= 1 else 3


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
