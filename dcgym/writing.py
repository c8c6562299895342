"""The one way to write what a user names: a file is the old or the new one, a folder has room."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dcgym.errors import ConfigError, suggest

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "LONGEST_FOLDER_BYTES",
    "PICTURES",
    "TABLES",
    "as_path",
    "check_output",
    "make_folder",
    "new_folder",
    "open_output",
    "prepare_folder",
    "real_path",
    "remove_partial_files",
    "write_file",
    "write_files",
    "write_table",
]

LONGEST_FOLDER_BYTES = 3_000
"""Most bytes of a folder's absolute path: Linux takes 4,095, and files come below it."""

PICTURES = (".svg", ".png", ".pdf")
"""Formats of pictures, by the suffix of their file."""

TABLES = (".csv", ".parquet")
"""Formats of tables, by the suffix of their file."""

_FILE = "a file that can be written"
_FOLDER = "a folder that can be written"
_REGULAR = "a regular file or a new one"
_SAFELY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# A full disk accepts an empty file; only data shows it.
_PROBE = bytes(64 * 1024)
_PARTIAL = ".dcgym-"
# Where results have files, and killed processes leave parts of them.
_PLACES = ("", "runs/*/", "training/*/", "best/", "training/*/best/")
# A folder of others, or a file that is a mount of its own: the file itself may still be written.
_IN_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)


def as_path(value: object, field: str) -> Path:
    """Return the path that a value is.

    Args:
        value: What the user wrote: a text or a path.
        field: Name of the field in the error message.

    Raises:
        ConfigError: It is no path that a file can have.
    """
    text: object = None
    # An object of another library's may fail to say what path it is.
    with contextlib.suppress(Exception):
        text = os.fspath(value)  # type: ignore[call-overload]
    if not isinstance(text, str) or not text:
        raise ConfigError(field, value, "a path (text)")
    if "\0" in text or not _is_utf8(text):
        raise ConfigError(field, text, "a path in UTF-8 without null characters")
    return Path(text)


def real_path(value: object, field: str) -> Path:
    """Return the absolute path of a folder without links, which may not be there yet.

    Args:
        value: What the user wrote.
        field: Name of the field in the error message.

    Raises:
        ConfigError: It is no path, leads round, or is too long for what comes below it.
    """
    path = as_path(value, field)
    target, _ = _resolved(path, field, _FOLDER)
    if len(os.fsencode(target)) > LONGEST_FOLDER_BYTES:
        allowed = f"a folder whose absolute path has at most {LONGEST_FOLDER_BYTES:,} bytes"
        raise ConfigError(field, str(path), allowed)
    return target


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, however many.

    Args:
        folder: The folder.

    Raises:
        OSError: It cannot be made.
    """
    missing = [folder]
    while not missing[-1].parent.is_dir() and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    for one in reversed(missing):
        one.mkdir(exist_ok=True)


def prepare_folder(folder: str | Path, field: str = "out", names: Sequence[str] = ()) -> Path:
    """Create the folder, prove that it can be written, and remove what killed processes left.

    Args:
        folder: The folder.
        field: Name of the field in the error message.
        names: Files that will be written there; those with a slash at the end are folders.

    Returns:
        Its absolute path without links.

    Raises:
        ConfigError: It cannot, or something else has one of the names; the message says why.
    """
    target = real_path(folder, field)
    with _told(folder, field, _FOLDER):
        make_folder(target)
        with _partial(target / "probe") as partial:
            partial.write_bytes(_PROBE)
    for name in names:
        path = target / name
        if not name.endswith("/"):
            _checked(path, field)
        elif os.path.lexists(path) and not os.path.isdir(path):
            raise ConfigError(field, str(path), "a folder, or nothing")
    with _told(folder, field, _FOLDER):
        for place in _PLACES:
            remove_partial_files(target, place)
    return target


def remove_partial_files(folder: Path, place: str = "") -> None:
    """Remove the parts of files that killed processes left.

    Args:
        folder: Where files are written in one step.
        place: Pattern of folders below it, with a slash at its end; empty for the folder itself.

    Raises:
        OSError: They cannot be removed.
    """
    for path in folder.glob(f"{place}{_PARTIAL}*"):
        process = path.name.rpartition(".")[2]
        if process.isdigit() and path.is_file() and not Path(f"/proc/{process}").exists():
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(folder: str | Path, field: str = "out", names: Sequence[str] = ()) -> Iterator[Path]:
    """Prepare a folder, and take it away where a failure in the block leaves nothing in it.

    Args:
        folder: The folder, which may exist before.
        field: Name of the field in the error message.
        names: Files that will be written there; those with a slash at the end are folders.

    Raises:
        ConfigError: It cannot be written.
    """
    target = real_path(folder, field)
    missing = [one for one in (target, *target.parents) if not one.exists()]
    try:
        yield prepare_folder(folder, field, names)
    except BaseException:
        for one in missing:
            # One that holds something stays, and so do those above it.
            with contextlib.suppress(OSError):
                one.rmdir()
        raise


def check_output(path: str | Path, field: str, suffixes: Sequence[str] = ()) -> Path:
    """Return a file's path if the file can be written, before anything is run.

    Args:
        path: The file, which may exist; a link to one will do.
        field: Name of the field in the error message.
        suffixes: Those that it may have, in small letters; any if empty.

    Raises:
        ConfigError: It is no path, no regular file, or cannot be written; the message says why.
            Or its suffix is none of them.
    """
    if suffixes:
        _check_suffix(as_path(path, field), suffixes)
    target = _checked(path, field)
    with _told(path, field, _FILE):
        try:
            with _partial(target) as partial:
                partial.write_bytes(_PROBE)
        except OSError as error:
            if error.errno not in _IN_PLACE or not target.exists():
                raise
    return Path(path)


def _check_suffix(path: Path, suffixes: Sequence[str]) -> str:
    """Return the suffix of a path, in small letters."""
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise ConfigError(f"suffix of {path.name}", suffix, suffixes, suggest(suffix, suffixes))
    return suffix


def write_file(path: str | Path, field: str, content: bytes | Callable[[Path], object]) -> None:
    """Write a file in one step: a reader finds the old one or all of the new one.

    Args:
        path: The file; a link to one will do. Its folder exists.
        field: Name of the field in the error message.
        content: The content, or what writes it into a file whose path it is given.

    Raises:
        ConfigError: It is no regular file, or cannot be written; an old one is left as it was.
    """

    def write(to: Path) -> None:
        if isinstance(content, bytes):
            to.write_bytes(content)
        else:
            content(to)

    target = _checked(path, field)
    with _told(path, field, _FILE):
        try:
            with _partial(target) as partial:
                write(partial)
                os.replace(partial, target)
        except OSError as error:
            if error.errno not in _IN_PLACE or not target.exists():
                raise
            write(target)


def write_table(path: str | Path, field: str, table: pl.DataFrame) -> None:
    """Write a table in one step, as CSV or Parquet.

    Args:
        path: The file; its suffix, one of `TABLES`, decides the format.
        field: Name of the field in the error message.
        table: The table.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be written.
    """
    from polars.exceptions import ComputeError

    is_csv = _check_suffix(as_path(path, field), TABLES) == ".csv"

    def write(to: Path) -> None:
        try:
            table.write_csv(to) if is_csv else table.write_parquet(to)
        except ComputeError as error:  # What it makes of a full disk.
            is_full = os.strerror(errno.ENOSPC) in str(error)
            raise OSError(errno.ENOSPC if is_full else errno.EIO, str(error)) from error

    write_file(path, field, write)


def write_files(folder: Path, field: str, files: Mapping[str, bytes], last: Sequence[str]) -> None:
    """Write files into a folder; those that say that it is complete come last, in one step each.

    Args:
        folder: The folder; made if it is missing.
        field: Name of the field in the error message.
        files: Content by relative path.
        last: Names of those that come last.

    Raises:
        ConfigError: One cannot be written.
    """
    with _told(folder, field, _FOLDER):
        for parent in {(folder / name).parent for name in files}:
            make_folder(parent)
    for name in sorted(files, key=lambda name: name in last):
        # Nobody reads a new file before the last ones are there.
        with _told(folder / name, field, _FILE):
            if name not in last and not os.path.lexists(folder / name):
                with open(folder / name, "xb") as file:
                    file.write(files[name])
                continue
        write_file(folder / name, field, files[name])


def open_output(path: Path, field: str) -> BinaryIO:
    """Open a file of results which grows while others read it, such as a log.

    Args:
        path: The file; its folder is made if it is missing.
        field: Name of the field in the error message.

    Raises:
        ConfigError: It is no regular file, or cannot be written.
    """
    with _told(path, field, _FOLDER):
        make_folder(path.parent)
    target = _checked(path, field)
    with _told(path, field, _FILE):
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFELY, 0o666)
    return os.fdopen(fd, "wb")


def _checked(path: str | Path, field: str) -> Path:
    """Return where a path leads; it is a regular file that may be written, or nothing."""
    path = as_path(path, field)
    target, mode = _resolved(path, field, _FILE)
    # Before it is opened, which may start a device or wait for the other end of a pipe.
    if not stat.S_ISREG(mode):
        raise ConfigError(field, str(path), _REGULAR)
    with _told(path, field, _FILE), contextlib.suppress(FileNotFoundError):
        os.close(os.open(target, os.O_WRONLY | _SAFELY))
    return target


def _resolved(path: Path, field: str, allowed: str) -> tuple[Path, int]:
    """Return where a path leads, and the mode of what is there; that of a file for nothing."""
    mode = stat.S_IFREG
    with _told(path, field, allowed):
        with contextlib.suppress(FileNotFoundError):
            # First: the system limits how many links lead to each other, what follows does not.
            mode = os.stat(path).st_mode
        target = os.path.realpath(path)
    if not _is_utf8(target):
        raise ConfigError(field, target, "a path that leads through names in UTF-8 only")
    return Path(target), mode


@contextlib.contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Make a file beside another one, with its mode; it is away in the end, or in its place."""
    # A name of its own length: that of the target may have all the bytes that names have.
    partial = target.with_name(f"{_PARTIAL}{secrets.token_hex(4)}.{os.getpid()}")
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.suppress(OSError):
            old = os.stat(target)
            os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
    finally:
        os.close(fd)
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _told(path: str | Path, field: str, allowed: str) -> Iterator[None]:
    """Turn what the system says of a path into one line."""
    try:
        yield
    except (OSError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(field, str(path), f"{allowed} ({reason})") from error


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
