"""The state of a training, from which it can go on: beside the policy, in a folder of its own.

What acts is read from strangers and never unpickled. A state is for whoever trained: libraries may
keep theirs as pickles.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from dcgym.config import check_int, check_number
from dcgym.errors import ConfigError
from dcgym.json_text import json_text
from dcgym.policies.checkpoint import parse_object
from dcgym.policies.learners import Progress
from dcgym.reading import NOTE, read_bytes
from dcgym.writing import write_file

__all__ = ["NEW_FOLDER", "STATE_FOLDER", "forget_state", "read_state", "write_state"]

STATE_FOLDER = "state"
STATE_FILE = "state.json"
NEW_FOLDER = "state.new"


def write_state(folder: Path, progress: Progress, save: Callable[[Path], None]) -> None:
    """Write a state, so that an old or a new one is there at any time.

    Args:
        folder: The checkpoint folder.
        progress: How far the training is.
        save: Writes the library's part into a folder.
    """
    new, old = folder / NEW_FOLDER, folder / STATE_FOLDER
    if not (old / STATE_FILE).exists() and (new / STATE_FILE).exists():
        # The process was killed that put it in the place of the old one.
        _remove(old)
        new.rename(old)
    _remove(new)
    new.mkdir()
    save(new)
    write_file(new / STATE_FILE, "out_dir", json_text(asdict(progress), indent=None).encode())
    _remove(old)
    new.rename(old)


def _remove(state: Path) -> None:
    """Remove a state; the file that says that it is whole is the first to go, as it comes last."""
    (state / STATE_FILE).unlink(missing_ok=True)
    shutil.rmtree(state, ignore_errors=True)


def forget_state(folder: Path) -> None:
    """Remove the state that a training left.

    Args:
        folder: The checkpoint folder.
    """
    for name in (NEW_FOLDER, STATE_FOLDER):
        _remove(folder / name)


def read_state(folder: Path) -> tuple[Path, Progress]:
    """Return the folder of the library's part of a state, and how far the training was.

    Args:
        folder: The checkpoint folder.

    Raises:
        ConfigError: There is no state, or a damaged one.
    """
    allowed = f"a folder in which a training left its {STATE_FOLDER}"
    for name in (STATE_FOLDER, NEW_FOLDER):
        path = folder / name
        if (path / STATE_FILE).exists():
            break
    else:
        raise ConfigError("resume", str(folder), allowed)
    try:
        found = parse_object(read_bytes(path / STATE_FILE, "resume", NOTE))
        steps = check_int("steps", found.get("steps"), 1)
        seconds, mean = check_number("seconds", found.get("seconds")), found.get("reward_mean")
        mean = None if mean is None else check_number("reward_mean", mean)
    except (OSError, ValueError) as error:
        raise ConfigError("resume", str(folder), f"{allowed} ({error})") from error
    return path, Progress(steps, steps, seconds, mean)
