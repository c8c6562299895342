"""What the runs of this process and of its children are called, for people who look at them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from dcgym.config import as_name, check_name

__all__ = ["NAME_VARIABLE", "name_of_runs", "named_runs"]

NAME_VARIABLE = "DCGYM_RUN_NAME"
"""Holds the name where somebody has given one."""


@contextlib.contextmanager
def named_runs(name: str) -> Iterator[None]:
    """Give what this process and its children start meanwhile a name.

    Args:
        name: The name; what is too long is cut.
    """
    before = os.environ.get(NAME_VARIABLE)
    os.environ[NAME_VARIABLE] = as_name(name)
    try:
        yield
    finally:
        del os.environ[NAME_VARIABLE]
        if before is not None:
            os.environ[NAME_VARIABLE] = before


def name_of_runs() -> str:
    """Return the name of what starts now: the given one, or that of the script or package.

    Raises:
        ConfigError: The given one is no name.
    """
    if given := os.environ.get(NAME_VARIABLE):
        return check_name(NAME_VARIABLE, given)
    path = Path(sys.argv[0])
    name = path.parent.name if path.stem == "__main__" else path.stem
    return as_name(name) if name and name != "-c" else "python"
