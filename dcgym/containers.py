"""What files hold that libraries unpack: counted before the libraries see them."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from dcgym.errors import ConfigError
from dcgym.reading import ARCHIVE, WEIGHTS, Kind, open_regular, read_bytes, reading

__all__ = ["check_tensors", "open_archive", "read_parquet_bytes", "read_tensors"]

# Networks of ours have 200 tensors at most; a library makes an object for each.
MOST_TENSORS = 1_000
MOST_HEAD_BYTES = 1_000_000
# A state has a few for each weight of a network.
MOST_ENTRIES = 10_000
MOST_DIRECTORY_BYTES = 4_000_000
MOST_FOOTER_BYTES = 8_000_000
DEEPEST = 16


def read_tensors(path: str | Path, field: str, kind: Kind = WEIGHTS) -> bytes:
    """Return the content of a safetensors file, with its head checked.

    Args:
        path: The file.
        field: Name of the field in the error message.
        kind: How much it may hold.

    Raises:
        ConfigError: It is no regular file, too large, or has too many tensors.
        OSError: It cannot be read.
    """
    content = read_bytes(path, field, kind)
    check_tensors(io.BytesIO(content), path, field)
    return content


def check_tensors(file: BinaryIO, path: str | Path, field: str) -> None:
    """Refuse a safetensors file of too many tensors; what is none is left to its library.

    Args:
        file: The file.
        path: Where it is.
        field: Name of the field in the error message.

    Raises:
        ConfigError: It has too many.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head_bytes = int.from_bytes(file.read(8), "little")
    head = file.read(min(head_bytes, MOST_HEAD_BYTES))
    if head.count(b'"data_offsets"') > MOST_TENSORS:
        raise ConfigError(field, str(path), f"a file of at most {MOST_TENSORS:,} tensors")
    if MOST_HEAD_BYTES < head_bytes <= size:
        allowed = f"tensors with a head of at most {MOST_HEAD_BYTES:,} bytes"
        raise ConfigError(field, str(path), allowed)
    file.seek(0)


@contextmanager
def open_archive(path: str | Path, field: str, kind: Kind = ARCHIVE) -> Iterator[BinaryIO]:
    """Open what ``torch.save`` wrote, with the size of its content checked.

    Args:
        path: The file.
        field: Name of the field in the error message.
        kind: How much it may hold, unpacked too.

    Raises:
        ConfigError: It cannot be read, is no archive, or holds too much.
    """
    with reading(path, field), open_regular(path, field, kind) as file:
        _check_archive(file, path, field, kind)
        file.seek(0)
        yield file


def read_parquet_bytes(path: str | Path, field: str, kind: Kind) -> bytes:
    """Return the content of a Parquet file, with the size of its tables checked.

    Args:
        path: The file.
        field: Name of the field in the error message.
        kind: How much it may hold, unpacked too.

    Raises:
        ConfigError: It is no regular file, or holds too much.
        ValueError: It is no Parquet file.
        OSError: It cannot be read.
    """
    content = read_bytes(path, field, kind)
    footer_bytes = int.from_bytes(content[-8:-4], "little")
    if not content.startswith(b"PAR1") or footer_bytes > len(content) - 8:
        raise ValueError("no Parquet file")
    if footer_bytes > MOST_FOOTER_BYTES:
        allowed = f"a table with a footer of at most {MOST_FOOTER_BYTES:,} bytes"
        raise ConfigError(field, str(path), allowed)
    try:
        values, unpacked_bytes = _extent(_Footer(content[-8 - footer_bytes : -8]).struct())
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError("no Parquet file") from error
    if values > kind.most_values:
        allowed = f"a table of at most {kind.most_values:,} values; this one has {values:,}"
        raise ConfigError(field, str(path), allowed)
    if unpacked_bytes > kind.most_bytes:
        raise _unpacks_to(unpacked_bytes, path, field, kind)
    return content


def _check_archive(file: BinaryIO, path: str | Path, field: str, kind: Kind) -> None:
    with io.FileIO(file.fileno(), closefd=False) as raw:
        try:
            entries = zipfile.ZipFile(_Directory(raw)).infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            allowed = f"a state that torch wrote ({error})"
            raise ConfigError(field, str(path), allowed) from error
    if len(entries) > MOST_ENTRIES:
        raise ConfigError(field, str(path), f"an archive of at most {MOST_ENTRIES:,} entries")
    unpacked_bytes = sum(entry.file_size for entry in entries)
    if unpacked_bytes > kind.most_bytes:
        raise _unpacks_to(unpacked_bytes, path, field, kind)


def _unpacks_to(size: int, path: str | Path, field: str, kind: Kind) -> ConfigError:
    allowed = f"a file that unpacks to at most {kind.most_bytes:,} bytes; this one to {size:,}"
    return ConfigError(field, str(path), allowed)


class _Directory(io.BufferedReader):
    """A ZIP archive as `zipfile` reads it, which asks for its whole directory at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read, unless that is too much."""
        if (size or 0) > MOST_DIRECTORY_BYTES:
            raise ValueError(f"its directory has more than {MOST_DIRECTORY_BYTES:,} bytes")
        return super().read(size)


def _extent(metadata: dict[int, Any]) -> tuple[int, int]:
    """Return the values and the unpacked bytes of a table, by the field numbers of Parquet."""
    groups = metadata.get(4, [])
    columns = [column[3] for group in groups for column in group.get(1, [])]
    rows = max(metadata.get(3, 0), sum(abs(group.get(3, 0)) for group in groups))
    values = sum(abs(column.get(5, 0)) for column in columns)
    return max(rows, values), sum(abs(column.get(6, 0)) for column in columns)


class _Footer:
    """Metadata of Parquet: structs by field number, in the compact protocol of Thrift.

    Formats: parquet.thrift of apache/parquet-format, thrift-compact-protocol.md of apache/thrift.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of the struct at this place."""
        found, number = {}, 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            # The kind of a field holds its truth; items of a list have a byte each.
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth + 1)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise LookupError("nested too deeply")
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            return self._skip(8 if kind == 7 else self._natural())
        if kind in (9, 10):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._natural()
            return [self._value(head & 15, depth + 1) for _ in range(size)]
        if kind == 12:
            return self.struct(depth)
        raise LookupError("a kind that Parquet does not use")

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _skip(self, size: int) -> None:
        self._at += size

    def _natural(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise LookupError("a number of more than 64 bits")
        return value | byte << shift

    def _integer(self) -> int:
        value = self._natural()
        return value >> 1 ^ -(value & 1)
