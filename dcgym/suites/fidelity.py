"""What a benchmark makes of the fidelity of its runs."""

from __future__ import annotations

from collections import Counter

from dcgym.backends.records import FIDELITIES, Record
from dcgym.errors import BackendError
from dcgym.suites.results import Records

__all__ = ["GOES_ON", "describe_reasons", "is_as_good_as", "require", "run_names", "worst_status"]

GOES_ON = "the same call runs what is left"
"""Advice after a suite that has not run in full."""

MOST_REASONS = 3
MOST_NAMES = 8


def worst_status(records: Records) -> str:
    """Return the worst status of some runs.

    Args:
        records: Records of runs.
    """
    return max((str(record["fidelity"]["status"]) for record in records), key=FIDELITIES.index)


def is_as_good_as(record: Record, required: str) -> bool:
    """Tell whether a run's fidelity is the required one or better.

    Args:
        record: Record of the run.
        required: One of `FIDELITIES`.
    """
    return FIDELITIES.index(record["fidelity"]["status"]) <= FIDELITIES.index(required)


def require(records: Records, required: str) -> None:
    """Refuse runs that the machine could not keep up with.

    Args:
        records: Records of runs.
        required: Worst fidelity that is allowed.

    Raises:
        BackendError: The fidelity of some run is worse than the required one.
    """
    refused = [record for record in records if not is_as_good_as(record, required)]
    if not refused:
        return
    raise BackendError(
        f"fidelity {required} is required; refused {len(refused)} of {len(records)} runs "
        f"({run_names(refused)}): {describe_reasons(refused)}",
        GOES_ON,
    )


def describe_reasons(records: Records) -> str:
    """Return the most frequent reasons of some runs, figures as in the first run with each.

    Args:
        records: Records of runs.
    """
    found = [str(reason) for record in records for reason in record["fidelity"]["reasons"]]
    first = {_kind(reason): reason for reason in reversed(found)}
    kinds = Counter(map(_kind, found)).most_common(MOST_REASONS)
    return "; ".join(first[kind] for kind, _ in kinds)


def run_names(records: Records) -> str:
    """Return the names of some runs with their status; the first ones of many.

    Args:
        records: Records of runs.
    """
    names = [f"{_name(record)} {record['fidelity']['status']}" for record in records]
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _name(record: Record) -> str:
    parts = (record.get("scenario", ""), record["policy"], str(record["seed"]))
    return "-".join(part for part in parts if part)


def _kind(reason: str) -> str:
    """A reason without its figures."""
    return "".join(character for character in reason if not character.isdigit())
