"""The note that makes a folder a checkpoint of ours: who trained it, and how far."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dcgym.config import LARGEST, check_int, check_list, check_text, read_numbers
from dcgym.errors import ConfigError
from dcgym.files import wrong_file
from dcgym.json_text import json_text
from dcgym.reading import NOTE, read_bytes
from dcgym.writing import write_file

__all__ = [
    "CHECKPOINT_FILE",
    "CheckpointNote",
    "parse_object",
    "read_note",
    "write_note",
]

CHECKPOINT_FILE = "dcgym_policy.json"
FORMAT = 3


@dataclass(frozen=True)
class CheckpointNote:
    """What is known of a trained policy beside its weights.

    Attributes:
        algorithm: The algorithm that trained it.
        library: The library that the algorithm is of.
        seed: Seed of the training.
        training: How far it came: steps, seconds, mean reward.
        details: What is needed beside its other files to load it.
        env: Arguments of the environment that it was trained in; what JSON cannot hold, as text.
        options: Frames, scaling and hyper-parameters that the training was told.
        versions: Versions of what trained it, and the commit of a checkout, by name.
        curve: Seconds, steps and mean reward of each report, thinned out.
        columns: What the rows of its observations held (`label_columns`); none where that is not
            known.
        format: Format of the checkpoint; older ones are read.
    """

    algorithm: str
    library: str
    seed: int = 0
    training: Mapping[str, object] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)
    env: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, object] = field(default_factory=dict)
    curve: Sequence[Sequence[float]] = ()
    columns: Sequence[str] = ()
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Check the types, which a file may have wrong.

        Raises:
            ConfigError: One is wrong.
        """
        read_numbers(self)
        for name in ("algorithm", "library"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(name, getattr(self, name), "a name")
        check_int("seed", self.seed, -LARGEST)
        for name in ("training", "details", "env", "options", "versions"):
            if not isinstance(getattr(self, name), Mapping):
                raise ConfigError(name, getattr(self, name), "a mapping")
        check_list("curve", self.curve, "a list")
        for name in check_list("columns", self.columns, "a list of names"):
            check_text("columns", name)


def write_note(folder: Path, note: CheckpointNote) -> None:
    """Write a note into a checkpoint folder.

    Args:
        folder: The folder, which exists.
        note: The note.

    Raises:
        ConfigError: It is larger than what is read, by a network written out in ``env``; or it
            cannot be written.
    """
    # What is no plain data, such as the class of a backend, is named.
    content = (json_text(asdict(note)) + "\n").encode()
    if len(content) > NOTE.most_bytes:
        allowed = f"arguments that take at most {NOTE.most_bytes:,} bytes; a topology may be a file"
        raise ConfigError("env", f"{len(content):,} bytes", allowed)
    write_file(folder / CHECKPOINT_FILE, "checkpoint", content)


def read_note(folder: str | Path) -> CheckpointNote:
    """Read the note of a checkpoint folder.

    Args:
        folder: What a training returned.

    Raises:
        ConfigError: There is none, or it is not one of ours.
    """
    allowed = f"a folder with {CHECKPOINT_FILE}"
    if not isinstance(folder, str | Path):
        raise ConfigError("checkpoint", folder, allowed)
    try:
        content = read_bytes(Path(folder) / CHECKPOINT_FILE, "checkpoint", NOTE)
    except OSError:
        if os.path.exists(folder):
            raise wrong_file("checkpoint", folder, allowed) from None
        raise ConfigError("checkpoint", str(folder), allowed) from None
    try:
        found = parse_object(content)
        number = check_int("format", found.get("format", 1), 1)
        if number > FORMAT:
            newer = f"{FORMAT} or less; a newer dcgym has written it, which reads it"
            raise ConfigError("format", number, newer)
        return CheckpointNote(**found)  # type: ignore[arg-type]  # it checks them
    except (ValueError, TypeError) as error:
        reason = error if isinstance(error, ValueError) else "it has other fields"
        raise ConfigError("checkpoint", str(folder), f"{allowed} of ours ({reason})") from error


def parse_object(content: bytes) -> dict[str, object]:
    """Return the object that a JSON file holds.

    Args:
        content: What was read from the file.

    Raises:
        ValueError: It holds something else.
    """
    try:
        found = json.loads(content)
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found
