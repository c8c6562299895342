"""The one way to read a file that a user names: a regular file, within the limits of its kind."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dcgym.errors import ConfigError
from dcgym.units import MOST_VALUES

__all__ = [
    "ARCHIVE",
    "FLOWS",
    "NOTE",
    "STEPS",
    "TEXT",
    "WEIGHTS",
    "YAML",
    "Kind",
    "check_folder",
    "check_readable",
    "open_regular",
    "read_bytes",
    "read_chunks",
    "reading",
]

MOST_FILES = 10_000

_MB, _GB = 10**6, 10**9
_CHUNK_BYTES = 1 << 20
# Whatever a reader makes an object of has a word, an opening bracket or a comma of its own.
_BLANK, _WORD, _OPEN, _COMMA = b" w[,"
_CLASS_OF = {
    **dict.fromkeys(b" \t\r\n]}>=", _BLANK),
    **dict.fromkeys(b"[{<", _OPEN),
    **dict.fromkeys(b",;", _COMMA),
}
_CLASSES = bytes(_CLASS_OF.get(byte, _WORD) for byte in range(256))


class Kind(NamedTuple):
    """How much a file may hold.

    Attributes:
        most_bytes: Its size, and what it unpacks to.
        most_values: Words, opening brackets and commas of a text; cells of a table.
    """

    most_bytes: int
    most_values: int = MOST_VALUES


NOTE = Kind(_MB)
"""What a checkpoint says of itself, in JSON."""
TEXT = Kind(64 * _MB)
"""Text of any form, and records of runs."""
# The reader takes up to 1 KB and 40 us a value. A fat-tree with k = 40 has half as many.
YAML = TEXT._replace(most_values=2_000_000)
"""YAML, and JSON that is read as YAML."""
WEIGHTS = Kind(_GB)
"""The weights of a network."""
ARCHIVE = Kind(4 * _GB)
"""The state of a training: weights, and what its optimisers keep of each."""
# Each value becomes an object of Python, of 50 bytes or more.
FLOWS = Kind(4 * _GB, 100_000_000)
"""Flows, requests and other tables, as text or Parquet."""
STEPS = Kind(4 * _GB, 500_000_000)
"""Tables that a run wrote, which stay columns of 8 bytes a value."""


@contextmanager
def reading(path: str | Path, field: str, expected: str = "a file") -> Iterator[None]:
    """Let a block that reads fail with an error of the field.

    Args:
        path: What the error names.
        field: Name of the field in the error message.
        expected: What is read.

    Raises:
        ConfigError: The block has raised an OSError.
    """
    try:
        yield
    except OSError as error:
        allowed = f"{expected} that can be read ({error.strerror or error})"
        raise ConfigError(field, str(path), allowed) from error


def open_regular(path: str | Path, field: str, kind: Kind) -> BinaryIO:
    """Open a file to read.

    Args:
        path: The file; a link to one will do.
        field: Name of the field in the error message.
        kind: How much it may hold.

    Raises:
        ConfigError: It is no regular file, or too large.
        OSError: It cannot be opened.
    """
    try:
        # Before it is opened, as that may start a device.
        _check(os.stat(path), path, field, kind)
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise OSError(errno.EINVAL, str(error)) from error  # The path has a null character.
    # Another program may have put something else there in the meantime.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(os.fstat(fd), path, field, kind)
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def read_bytes(path: str | Path, field: str, kind: Kind) -> bytes:
    """Return the content of a file.

    Args:
        path: The file.
        field: Name of the field in the error message.
        kind: How much it may hold.

    Raises:
        ConfigError: It is no regular file, or too large.
        OSError: It cannot be read.
    """
    with open_regular(path, field, kind) as file:
        # As one piece, which is not copied. Files of /proc say that they are empty.
        first_bytes = os.fstat(file.fileno()).st_size + 1
        return b"".join(_pieces(file, first_bytes, path, field, kind))


def read_chunks(path: str | Path, field: str, kind: Kind) -> Iterator[bytes]:
    """Yield the content of a text file in pieces, and count its values on the way.

    Args:
        path: The file.
        field: Name of the field in the error message.
        kind: How much it may hold.

    Raises:
        ConfigError: It is no regular file, too large, or has too many values.
        OSError: It cannot be read.
    """
    values = 0
    with open_regular(path, field, kind) as file:
        for chunk in _pieces(file, _CHUNK_BYTES, path, field, kind):
            values += _values_of(chunk)
            _check_values(values, path, field, kind)
            yield chunk


def check_readable(content: bytes, path: str | Path, field: str, kind: Kind) -> None:
    """Check that a text can be read back before it is written.

    Args:
        content: The text.
        path: Where it is to be written.
        field: Name of the field in the error message.
        kind: How much a file may hold that is read.

    Raises:
        ConfigError: It is too large, or has too many values.
    """
    if len(content) > kind.most_bytes:
        raise _too_large(path, field, kind, f"{len(content):,}")
    _check_values(_values_of(content), path, field, kind)


def check_folder(path: str | Path, field: str, kind: Kind) -> None:
    """Check each file of a folder which a library reads by itself.

    Args:
        path: The folder; links to other folders in it are not followed.
        field: Name of the field in the error message.
        kind: How much each file may hold.

    Raises:
        ConfigError: One is no regular file, or too large, or there are too many.
    """
    count = 0
    for folder, _, names in os.walk(path):
        for name in names:
            count += 1
            if count > MOST_FILES:
                raise ConfigError(field, str(path), f"a folder of at most {MOST_FILES:,} files")
            file = os.path.join(folder, name)
            with reading(file, field):
                found = os.stat(file)
            _check(found, file, field, kind)


def _check(found: os.stat_result, path: str | Path, field: str, kind: Kind) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(field, str(path), f"a regular file; this is {_named(found.st_mode)}")
    if found.st_size > kind.most_bytes:
        raise _too_large(path, field, kind, f"{found.st_size:,}")


def _check_values(values: int, path: str | Path, field: str, kind: Kind) -> None:
    if values > kind.most_values:
        counted = f"{kind.most_values:,} words, brackets and commas"
        raise ConfigError(field, str(path), f"a file of at most {counted}; this one has more")


def _named(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe (FIFO)"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _too_large(path: str | Path, field: str, kind: Kind, size: str) -> ConfigError:
    allowed = f"a file of at most {kind.most_bytes:,} bytes; this one has {size}"
    return ConfigError(field, str(path), allowed)


def _pieces(
    file: BinaryIO, first_bytes: int, path: str | Path, field: str, kind: Kind
) -> Iterator[bytes]:
    """Yield a file until its end, however much it says that it holds."""
    left, size = kind.most_bytes, first_bytes
    # By the descriptor: a file object says nothing where a read would block.
    while piece := os.read(file.fileno(), size):
        left, size = left - len(piece), _CHUNK_BYTES
        if left < 0:
            raise _too_large(path, field, kind, "more")
        yield piece


def _values_of(text: bytes) -> int:
    classes = text.translate(_CLASSES)
    words = sum(classes.count(start) for start in (b" w", b"[w", b",w"))
    return words + classes.count(b"[") + classes.count(b",")
