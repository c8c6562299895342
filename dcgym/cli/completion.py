"""What a shell offers after the tabulator key: the names that a word may become, with their lines.

``dcgym --install-completion`` tells the shell to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from dcgym.policies import Learner

__all__ = [
    "VARIABLE",
    "Offers",
    "algorithms",
    "environments",
    "kinds_of_names",
    "libraries",
    "names_of",
    "names_with_commas",
    "runs",
]

VARIABLE = "_DCGYM_COMPLETE"
"""Set in the environment where a shell asks instead of running a command."""

Offers: TypeAlias = list[tuple[str, str]]
"""Words, and what each is."""


def names_of(kind: str) -> Callable[[str], Offers]:
    """Return what completes one name.

    Args:
        kind: What there are names of, as in ``dcgym list``.
    """

    def complete(incomplete: str) -> Offers:
        from dcgym.cli import names

        return _fitting(incomplete, names.collect(kind)[kind])

    return complete


def names_with_commas(kind: str) -> Callable[[str], Offers]:
    """Return what completes the last of several names with commas between them.

    Args:
        kind: What there are names of, as in ``dcgym list``.
    """

    def complete(incomplete: str) -> Offers:
        from dcgym.cli import names

        begun, comma, last = incomplete.rpartition(",")
        given = begun.split(",")
        found = _fitting(last, names.collect(kind)[kind])
        return [(f"{begun}{comma}{name}", line) for name, line in found if name not in given]

    return complete


def algorithms(incomplete: str) -> Offers:
    """Complete the name of an algorithm that trains.

    Args:
        incomplete: The word so far.
    """
    return _fitting(incomplete, {one.algorithm: line for one, line in _learners()})


def libraries(incomplete: str) -> Offers:
    """Complete the name of a library that trains.

    Args:
        incomplete: The word so far.
    """
    return _fitting(incomplete, {one.library: "" for one, _ in _learners()})


def environments(incomplete: str) -> Offers:
    """Complete an environment's id, which the command line takes without the package's name too.

    Args:
        incomplete: The word so far.
    """
    from dcgym.cli import names

    found = names.collect("environments")["environments"]
    short = {name.removeprefix("dcgym/"): line for name, line in found.items()}
    return _fitting(incomplete, found if "/" in incomplete else short)


def kinds_of_names(incomplete: str) -> Offers:
    """Complete what ``dcgym list`` lists.

    Args:
        incomplete: The word so far.
    """
    from dcgym.cli import names

    return _fitting(incomplete, dict.fromkeys(names.kinds(), ""))


def runs(incomplete: str) -> Offers:
    """Complete the name of a running emulation, or its identifier where the name is taken twice.

    Args:
        incomplete: The word so far.
    """
    from dcgym.backends.emulation.session.runs import list_runs

    living = [run for run in list_runs() if run.alive]
    names = [run.name for run in living]
    words = {run.name if names.count(run.name) == 1 else run.id: run for run in living}
    return _fitting(incomplete, {w: f"process {run.owner_pid}" for w, run in words.items()})


def _learners() -> list[tuple[Learner, str]]:
    from dcgym.policies import LEARNERS

    return [(LEARNERS.find(name), LEARNERS.describe(name)) for name in LEARNERS.names()]


def _fitting(incomplete: str, described: Mapping[str, str]) -> Offers:
    return [(name, line) for name, line in described.items() if name.startswith(incomplete)]
