"""Temporary folders that outlive nobody for long: the next process removes those of killed ones."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["KINDS", "remove_places", "temporary_place"]

KINDS = ("recording", "training", "wheel", "work")
"""What places are for: a data set that is not whole yet, what libraries need for a training, a
wheel on its way to a cluster, and work that a cluster's machine does."""

_PREFIX = ".dcgym-"
_NAME = re.compile(rf"\{_PREFIX}({'|'.join(KINDS)})-[a-z0-9_]{{8}}")
# A socket's path has at most 107 bytes (unix(7)), of which 92 name a place and Ray's socket in it.
_LONGEST_BYTES = 15
_SHORT = Path("/tmp")


@contextmanager
def temporary_place(kind: str, *variables: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder, and remove it afterwards.

    The folder is locked (``flock``) as long as its process lives. A process that is killed cannot
    remove its folder; those that nobody locks any more are removed here.

    Args:
        kind: What it is for, one of `KINDS`.
        *variables: Of the environment, which name it while it is there unless they are set. Its
            path is then short enough for the sockets of libraries.
        parent: Where it is made; None for the machine's folder of temporary files.
    """
    remove_places(parent)
    folder = Path(tempfile.gettempdir()) if parent is None else parent
    if variables and len(os.fsencode(folder)) > _LONGEST_BYTES:
        folder = _SHORT
    place, lock = _make_locked(folder, f"{_PREFIX}{kind}-")
    named = {name: str(place) for name in variables if name not in os.environ}
    os.environ.update(named)
    try:
        yield place
    finally:
        for name in named:
            os.environ.pop(name, None)
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _make_locked(folder: Path, prefix: str) -> tuple[Path, int]:
    while True:
        place = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
        lock = _locked(place)
        # Another process may take it for a killed one's before it is locked.
        if lock is not None and place.is_dir():
            return place, lock


def remove_places(parent: Path | None = None) -> list[Path]:
    """Remove the folders of processes that were killed; returns them.

    Args:
        parent: Where they are; None for the machine's folders of temporary files.
    """
    removed = []
    folders = {Path(tempfile.gettempdir()), _SHORT} if parent is None else {parent}
    for place in sorted(one for folder in folders for one in folder.glob(f"{_PREFIX}*")):
        lock = _locked(place) if _is_ours(place) else None
        if lock is not None:
            shutil.rmtree(place, ignore_errors=True)
            os.close(lock)
            removed.append(place)
    return removed


def _is_ours(place: Path) -> bool:
    """Tell whether `tempfile.mkdtemp` has made a folder for us: people's own are named alike."""
    with contextlib.suppress(OSError):
        found = place.lstat()
        has_name = _NAME.fullmatch(place.name) is not None
        return has_name and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700
    return False


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
