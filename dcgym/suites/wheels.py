"""A wheel of the dcgym that runs here, for machines that have another one or none.

It is made of the files of the package as they are: those of a checkout or of an installed wheel,
with the compiled parts. Nothing is built, so that it takes a second and no compiler.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import re
import stat
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from dcgym.errors import ConfigError
from dcgym.suites.results import COMMIT_FILE, git_commit

__all__ = ["required_packages", "write_wheel"]

PACKAGE = "dcgym"
# Wheels of the same files are the same bytes.
OLDEST = (1980, 1, 1, 0, 0, 0)
PLAIN_FILE, PROGRAM = 0o644, 0o755

Entry: TypeAlias = tuple[str, bytes, int]
"""Path in the wheel, content and permissions."""


def write_wheel(folder: Path) -> Path:
    """Write a wheel of the dcgym that runs here, and return its path.

    Whoever unpacks it into a folder of `sys.path` has installed it. Its commit is that of the
    checkout (`git_commit`).

    Args:
        folder: Where to write it.

    Raises:
        ConfigError: dcgym is not installed, so that nobody knows what it needs.
    """
    known = _distribution()
    tag = _tag()
    name = f"{PACKAGE}-{known.version}"
    info = f"{name}.dist-info"
    recorded = []
    path = folder / f"{name}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for entry in [*_package_files(), *_information(known, info, tag)]:
            _add(wheel, entry)
            recorded.append(_recorded(entry))
        record = f"{info}/RECORD"
        text = "".join([*recorded, f"{record},,\n"])
        _add(wheel, (record, text.encode(), PLAIN_FILE))
    return path


def required_packages() -> list[str]:
    """Return the names of the packages that dcgym needs, without those of its extras.

    Raises:
        ConfigError: dcgym is not installed.
    """
    required = _distribution().requires or []
    names = [re.match(r"[\w.-]+", one) for one in required if "extra ==" not in one]
    return [name[0] for name in names if name]


def _distribution() -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        allowed = "an installed dcgym, such as that of 'make setup' or 'pip install'"
        raise ConfigError("ship", "a dcgym that is not installed", allowed) from None


def _tag() -> str:
    """Return which Python and which machines the compiled parts are for, as PEP 425 has it."""
    interpreter = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    # Such as cpython-313t-x86_64-linux-gnu of a build without the global lock.
    abi = str(sysconfig.get_config_var("SOABI")).split("-")[1]
    platform = re.sub(r"\W", "_", sysconfig.get_platform())
    return f"{interpreter}-cp{abi}-{platform}"


def _package_files() -> Iterator[Entry]:
    root = Path(str(resources.files(PACKAGE)))
    # Links of a checkout lead to its other folders of code.
    for folder, inner, names in os.walk(root, followlinks=True):
        inner[:] = sorted(one for one in inner if one != "__pycache__" and one[0] != ".")
        for path in (Path(folder, name) for name in sorted(names)):
            mode = PROGRAM if path.stat().st_mode & stat.S_IXUSR else PLAIN_FILE
            if path != root / COMMIT_FILE:
                yield f"{PACKAGE}/{path.relative_to(root)}", path.read_bytes(), mode
    if (commit := git_commit()) is not None:
        yield f"{PACKAGE}/{COMMIT_FILE}", commit.encode(), PLAIN_FILE


def _information(known: importlib.metadata.Distribution, info: str, tag: str) -> Iterator[Entry]:
    for name in ("METADATA", "entry_points.txt"):
        if text := known.read_text(name):
            yield f"{info}/{name}", text.encode(), PLAIN_FILE
    text = f"Wheel-Version: 1.0\nGenerator: {PACKAGE}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    yield f"{info}/WHEEL", text.encode(), PLAIN_FILE


def _add(wheel: zipfile.ZipFile, entry: Entry) -> None:
    name, content, mode = entry
    member = zipfile.ZipInfo(name, OLDEST)
    member.compress_type = zipfile.ZIP_DEFLATED
    # Where Unix's type and permissions lie; installers read there what is a program.
    member.external_attr = (stat.S_IFREG | mode) << 16
    wheel.writestr(member, content)


def _recorded(entry: Entry) -> str:
    """Return a line of RECORD, as PEP 376 and PEP 427 have it."""
    name, content, _ = entry
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"
