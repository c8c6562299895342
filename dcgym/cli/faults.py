"""Runs that fail, and batches that are interrupted, as commands tell them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dcgym.errors import BackendError, DcgymError

if TYPE_CHECKING:
    from dcgym.suites.faults import Failure

__all__ = [
    "Interrupted",
    "MemoryLimit",
    "RetryFailed",
    "RunDeadline",
    "print_failures",
    "telling_faults",
]

RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run again what failed before.")]
RunDeadline = Annotated[
    str | None,
    typer.Option(
        help="Longest time of one run, such as 90s or 5min; ten times its length and 2 min (in a "
        "twin 1 h) if not given."
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(help="Most memory of one run's processes, such as 4GiB; any if not given."),
]


class Interrupted(DcgymError):
    """Somebody pressed Ctrl-C; the message says what is done and how to go on."""


@contextmanager
def telling_faults() -> Iterator[None]:
    """Print what failed below the results, and keep what an interrupted batch says.

    Raises:
        BackendError: Runs failed.
        Interrupted: Somebody pressed Ctrl-C.
    """
    from dcgym.suites.faults import FailedRuns

    try:
        yield
    except FailedRuns as error:
        print_failures(error.failures)
        raise BackendError(f"{error.fact}; --retry-failed runs them again") from None
    except KeyboardInterrupt as error:
        raise Interrupted(str(error) or "finished results are kept") from None


def print_failures(failures: Sequence[Failure]) -> None:
    """Print a line for each failure to standard error.

    Args:
        failures: One for each run that failed.
    """
    from dcgym.suites.faults import describe

    sys.stdout.flush()
    for line in describe(failures):
        print(line, file=sys.stderr)
