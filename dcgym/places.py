"""Temporary folders that outlive nobody for long: the next process removes those of killed ones."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["KINDS", "remove_places", "temporary_place"]

KINDS = ("training", "work")
"""What places are for: what libraries need for a training; work that a cluster's machine does."""

_PREFIX = "dcgym-"


@contextmanager
def temporary_place(kind: str, *variables: str) -> Iterator[Path]:
    """Make a temporary folder, and remove it afterwards.

    The folder is locked (``flock``) as long as its process lives. A process that is killed cannot
    remove its folder; those that nobody locks any more are removed here.

    Args:
        kind: What it is for, one of `KINDS`.
        *variables: Of the environment, which name it while it is there unless they are set.
    """
    remove_places()
    place, lock = _make_locked(f"{_PREFIX}{kind}-")
    named = {name: str(place) for name in variables if name not in os.environ}
    os.environ.update(named)
    try:
        yield place
    finally:
        for name in named:
            os.environ.pop(name, None)
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _make_locked(prefix: str) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(prefix=prefix))
        lock = _locked(place)
        # Another process may take it for a killed one's before it is locked.
        if lock is not None and place.is_dir():
            return place, lock


def remove_places() -> list[Path]:
    """Remove the folders of processes that were killed; returns them."""
    removed = []
    folder = Path(tempfile.gettempdir())
    for place in [one for kind in KINDS for one in folder.glob(f"{_PREFIX}{kind}-*")]:
        lock = _locked(place)
        if lock is not None:
            shutil.rmtree(place, ignore_errors=True)
            os.close(lock)
            removed.append(place)
    return removed


def _locked(place: Path) -> int | None:
    """Return a descriptor that locks a folder, or None where another process has it."""
    try:
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
