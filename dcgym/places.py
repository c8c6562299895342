"""Temporary folders that outlive nobody for long: the next process removes those of killed ones."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["temporary_place"]


@contextmanager
def temporary_place(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder, and remove it afterwards.

    The folder is locked (``flock``) as long as its process lives. A process that is killed cannot
    remove its folder; folders of the prefix that nobody locks are removed here.

    Args:
        prefix: Beginning of the folder's name.
        parent: Where it is made; None for the machine's folder of temporary files.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    _remove_unlocked(prefix, parent)
    place, lock = _make_locked(prefix, parent)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _make_locked(prefix: str, parent: Path) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = _locked(place)
        # Another process may take it for a killed one's before it is locked.
        if lock is not None and place.is_dir():
            return place, lock


def _remove_unlocked(prefix: str, parent: Path) -> None:
    for place in parent.glob(f"{prefix}*"):
        lock = _locked(place)
        if lock is not None:
            shutil.rmtree(place, ignore_errors=True)
            os.close(lock)


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
