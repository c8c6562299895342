"""Files that people write: text of any kind, and what to say where one is another."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dcgym.config import check_text, plain
from dcgym.errors import ConfigError
from dcgym.reading import TEXT, YAML, Kind, open_regular, read_chunks, reading
from dcgym.units import MOST_VALUES, PLAIN, is_too_long
from dcgym.yaml_text import parse_yaml

__all__ = [
    "CONFIG",
    "PLAN",
    "SCENARIO",
    "SWEEP",
    "TOPOLOGY",
    "check_nesting",
    "describe_file",
    "kind_of",
    "load_mapping",
    "read_text",
    "wrong_file",
]

DEEPEST = 32
MOST_BITS = 1024
MOST_NAMES = 8
MOST_LISTED = 1_000
TOO_MANY = f"at most {MOST_VALUES} values"

TOPOLOGY = "a topology"
PLAN = "a plan of traffic"
SWEEP = "a sweep"
SCENARIO = "a scenario"
CONFIG = "arguments of an environment"

# By keys of which all that are named together are there; the first that fits.
_KINDS = {
    TOPOLOGY: (("nodes", "links"),),
    "the record of a run": (("policy", "metrics"),),
    SWEEP: (("set",), ("policies",)),
    CONFIG: (("env",), ("interval",), ("scenario",), ("topology",), ("traffic",)),
    PLAN: (("flows",),),
    SCENARIO: (("preset",), ("pool", "workload"), ("groups", "applications")),
}
_HEAD_BYTES = 4096
_ANY = Kind(sys.maxsize)
_MOST_SHOWN = 40
_MAGIC = {
    b"PAR1": "a Parquet table",
    b"ARROW1": "an Arrow table",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"\x93NUMPY": "an array of NumPy",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"%PDF": "a PDF",
    b"\x7fELF": "a program",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


def load_mapping(
    source: str | Path | Mapping[str, object], field: str = "config", kinds: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a configuration as a dict of its own.

    Args:
        source: Path of a YAML (or JSON) file, or a mapping.
        field: Name used in the error message.
        kinds: What a file may hold, in words of this module; the first is what errors name. Any
            mapping if empty.

    Raises:
        ConfigError: No such file, not YAML, not a mapping at the top, or a file of another kind.
    """
    content = _read_yaml(source, field) if isinstance(source, str | Path) else source
    if not isinstance(content, Mapping):
        if isinstance(source, str | Path):
            raise wrong_file(field, source, "a YAML file with a mapping")
        raise ConfigError(field, content, "a mapping, or the path of a YAML file that holds one")
    for key in content:
        check_text(f"{field} field", key)
    check_nesting(field, content)
    if isinstance(source, str | Path) and kinds and kind_of(content) not in (None, *kinds):
        raise wrong_file(field, source, kinds[0])
    return dict(plain(content))


def kind_of(keys: Collection[str]) -> str | None:
    """Return what a mapping with such keys is, in a word of this module; None if not known.

    Args:
        keys: Its keys, or the mapping.
    """
    for kind, marks in _KINDS.items():
        if any(all(key in keys for key in mark) for mark in marks):
            return kind
    return None


def read_text(
    path: str | Path, field: str, expected: str = "a text file", kind: Kind = TEXT
) -> str:
    """Return the content of a UTF-8 file without its byte-order mark.

    Args:
        path: The file.
        field: Name of the field in the error message.
        expected: What the file should hold.
        kind: How much it may hold.

    Raises:
        ConfigError: The file cannot be read, is too large, or holds no text.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    parts = []
    try:
        with reading(path, field, expected):
            for chunk in read_chunks(path, field, kind):
                # Holes in a file are zeros.
                if b"\0" in chunk:
                    raise wrong_file(field, path, expected)
                parts.append(decoder.decode(chunk))
        text = "".join([*parts, decoder.decode(b"", True)])
    except UnicodeDecodeError:
        raise wrong_file(field, path, expected) from None
    # As Python opens text.
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def wrong_file(field: str, path: str | Path, expected: str) -> ConfigError:
    """Return the error that says what is in a file and what was expected.

    Args:
        field: Name of the field in the error message.
        path: The file.
        expected: What should be in it.
    """
    what = "folder" if os.path.isdir(path) else "file"
    return ConfigError(field, str(path), f"{expected}; the {what} holds {describe_file(path)}")


def describe_file(path: str | Path) -> str:
    """Return what a file seems to hold, in a few words.

    Args:
        path: The file.
    """
    try:
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                names = sorted(entry.name for entry in islice(entries, MOST_LISTED))
            return ", ".join(names[:MOST_NAMES]) or "nothing"
        with open_regular(path, "file", _ANY) as file:
            head = os.read(file.fileno(), _HEAD_BYTES)
    except ConfigError:
        return "nothing that can be read (no regular file)"
    except OSError as error:
        return f"nothing that can be read ({error.strerror})"
    for magic, meaning in _MAGIC.items():
        if head.startswith(magic):
            return meaning
    try:
        # The last character may be cut.
        text = (
            head.decode("utf-8-sig")
            if len(head) < _HEAD_BYTES
            else head[:-4].decode("utf-8-sig", "ignore")
        )
    except UnicodeDecodeError:
        return "binary data"
    return "binary data" if "\0" in text else _describe_text(text)


def _describe_text(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "nothing"
    first = next((one for one in lines if not one.startswith(("#", "//", "---"))), lines[0])
    shown = first if len(first) <= _MOST_SHOWN else f"{first[:_MOST_SHOWN]}..."
    if first.startswith("<"):
        if "http://sndlib.zib.de/network" in text:
            return "a network of SNDlib"
        return "GraphML" if "<graphml" in text else "XML or HTML"
    if first.startswith("?SNDlib native format; type: network"):
        return "a network of SNDlib"
    if re.match(r"(Creator|graph)\b", first) and "node [" in text:
        return "GML"
    is_json = first.startswith(("{", "["))
    keys = _json_keys(text) if is_json else re.findall(r"^([\w.-]+):(?:\s|$)", text, re.M)
    kind = kind_of(keys)
    if kind is not None:
        return kind
    if is_json:
        return f"JSON that begins with {shown}"
    if keys:
        return f"YAML with {', '.join(dict.fromkeys(keys))}"
    what = f"a table of {first.count(',') + 1} columns" if "," in first else "text"
    return f"{what} that begins with {shown}"


def _json_keys(text: str) -> list[str]:
    """Return the keys of an object, as far as its text goes."""
    keys, depth, last = [], 0, ""
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[][{}:]', text):
        if token in ("{", "["):
            depth += 1
        elif token in ("}", "]"):
            depth -= 1
        elif token == ":" and depth == 1:
            keys.append(last.strip('"'))
        last = token
    return keys


def check_nesting(field: str, value: object) -> None:
    """Refuse data that is nested without end, huge by references, or has numbers without end.

    Args:
        field: Name of the field in the error message.
        value: Plain data; what is no mapping, list or tuple is taken as it is.

    Raises:
        ConfigError: It is nested too deeply, or holds too many values or too large ones.
    """
    problem, _ = _excess_of(value, MOST_VALUES)
    if problem == TOO_MANY:
        # Of all together; to look into each part would take as long again.
        raise ConfigError(field, value, problem)
    if problem is not None:
        raise ConfigError(*_innermost(field, value), problem)


def _excess_of(value: object, most: int) -> tuple[str | None, int]:
    """Return what is allowed where data is too much, else None; and how many values were seen."""
    # By levels, not by recursion. A value that is referred to often counts often: so it does for
    # whoever walks through the data.
    level: list[object] = [[value]]
    count = 0
    for _ in range(DEEPEST + 1):
        level = list(islice((item for one in level for item in _items(one)), most - count + 1))
        count += len(level)
        if any(isinstance(one, int) and one.bit_length() > MOST_BITS for one in level):
            return f"whole numbers of at most {MOST_BITS} bits", count
        if not level:
            return None, count
        if count > most:
            return TOO_MANY, count
        if any(one.__class__ not in PLAIN and is_too_long(one) for one in level):
            return f"arrays of {TOO_MANY}", count
    return f"values nested at most {DEEPEST} deep", count


def _innermost(field: str, value: object) -> tuple[str, object]:
    """Return the innermost field that is too much by itself, as far as it is found, and its value.

    All looks together see a tenth of the values that the whole may have.
    """
    left = MOST_VALUES // 10
    for _ in range(MOST_NAMES):
        for name, part in _fields(value):
            problem, seen = _excess_of(part, left)
            left -= seen
            if left <= 0:
                return field, value
            if problem is not None:
                field, value = f"{field}{name}", part
                break
        else:
            break
    return field, value


def _fields(value: object) -> Iterator[tuple[str, object]]:
    """Yield what errors call the fields of a mapping, and mappings of a list, with their values."""
    if isinstance(value, Mapping):
        yield from ((f".{key}", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            if isinstance(item, Mapping):
                yield f"[{number}]", item


def _items(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _read_yaml(path: str | Path, field: str) -> object:
    text = read_text(path, field, "a YAML file", YAML)
    try:
        return parse_yaml(text, field, str(path))
    except ConfigError as error:
        raise wrong_file(field, path, error.allowed) from None
