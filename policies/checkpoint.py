"""The note that makes a folder a checkpoint of ours: who trained it, and how far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dcgym.errors import ConfigError

__all__ = ["CHECKPOINT_FILE", "CheckpointNote", "read_note", "write_note"]

CHECKPOINT_FILE = "dcgym_policy.json"


@dataclass(frozen=True)
class CheckpointNote:
    """What is known of a trained policy beside its weights.

    Attributes:
        algorithm: The algorithm that trained it.
        library: The library that the algorithm is of.
        seed: Seed of the training.
        training: How far it came: steps, seconds, mean reward.
        details: What the library needs beside its own files to load it.
    """

    algorithm: str
    library: str
    seed: int = 0
    training: Mapping[str, object] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)


def write_note(folder: Path, note: CheckpointNote) -> None:
    """Write a note into a checkpoint folder.

    Args:
        folder: The folder, which exists.
        note: The note.
    """
    text = json.dumps(asdict(note), indent=2) + "\n"
    (folder / CHECKPOINT_FILE).write_text(text, encoding="utf-8")


def read_note(folder: str | Path) -> CheckpointNote:
    """Read the note of a checkpoint folder.

    Args:
        folder: What a training returned.

    Raises:
        ConfigError: There is none, or it is not one of ours.
    """
    try:
        note = json.loads((Path(folder) / CHECKPOINT_FILE).read_text(encoding="utf-8"))
        return CheckpointNote(**note)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError("checkpoint", str(folder), f"a folder with {CHECKPOINT_FILE}") from error
