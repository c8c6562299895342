"""What the ends of a workload have in common, however it came there."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import cast

import polars as pl

from dcgym.policies import CHECKPOINT_FILE, load_policy
from dcgym.policies.checkpoint import read_note
from dcgym.policies.learned.states import STATE_FOLDER

__all__ = ["has_ended", "last_weights", "loads", "rows", "table", "trained"]

# What the same run does not repeat.
TIMED = "duration_s"
KEYS = ("policy", "seed")


def has_ended(out: Path) -> object:
    """Return nothing: the command has ended well, and no more is promised."""
    return None


def table(out: Path) -> object:
    """Return a digest of all tables and data sets."""
    found = {}
    for path in sorted(out.rglob("*")):
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            text = frame.select(sorted(set(frame.columns) - {TIMED})).write_json()
            found[str(path.relative_to(out))] = hashlib.sha256(text.encode()).hexdigest()
        elif path.suffix == ".hdf5":
            found[str(path.relative_to(out))] = _digest_of_arrays(path)
    return found


def _digest_of_arrays(path: Path) -> str:
    import h5py

    digest = hashlib.sha256()
    with h5py.File(path) as file:
        file.visititems(lambda name, item: digest.update(name.encode()))
        file.visititems(
            lambda name, item: (
                digest.update(item[()].tobytes()) if isinstance(item, h5py.Dataset) else None
            )
        )
    return digest.hexdigest()


def rows(out: Path) -> object:
    """Return which runs the table of a suite has, each once."""
    frame = pl.read_parquet(out / "results.parquet")
    return frame.select([name for name in KEYS if name in frame.columns]).sort(KEYS).rows()


def loads(out: Path) -> None:
    """Load the last policy of a training, where there is one."""
    if (out / CHECKPOINT_FILE).exists():
        load_policy(out)


def trained(out: Path, steps: int) -> object:
    """Return whether a training has its steps, and a policy that loads."""
    load_policy(out)
    return cast(int, read_note(out).training["steps"]) >= steps


def last_weights(out: Path) -> object:
    """Return digests of the last policy and of the state, and the steps.

    When policies are written is a question of time, and so which of them is the best one.
    """
    found = {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in (out, out / STATE_FOLDER)
        for path in sorted(folder.glob("*.safetensors"))
    }
    return found, read_note(out).training["steps"]
