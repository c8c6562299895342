"""Which sources a compiled module was built from, as far as its callers depend on them.

`setup.py` loads this file by its path, before the package can be imported.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["digest_path", "interface_digest", "with_headers"]

FOLDERS = {
    "_native": "kernel",
    "_simulation": "twin",
    "_packets": "twin/packets",
    "_workload": "twin/workload",
    "_measure": "measure",
    "_placement": "placement",
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include "([^"]+)"', re.MULTILINE)


def with_headers(root: Path, files: Iterable[Path], folder: str) -> list[Path]:
    """Return sources and every header of ours that they include, sorted.

    Args:
        root: The folder ``dcgym/native``.
        files: The sources.
        folder: Folder of theirs in it. Headers are looked for beside the file that includes them,
            in ``include``, and in the folder and the one around it.
    """
    places = (root / "include", root / folder, root / folder.partition("/")[0])
    found: set[Path] = set()
    left = list(files)
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            all_there = (place / name for place in (path.parent, *places))
            left += [Path(os.path.normpath(each)) for each in all_there if each.is_file()][:1]
    return sorted(found)


def interface_digest(root: Path, name: str) -> str | None:
    """Return a digest of a module's bindings and of the layouts they share; None without sources.

    Args:
        root: The folder ``dcgym/native``.
        name: A name in `FOLDERS`.
    """
    # What lies in a folder of another module belongs to that.
    others = [root / other for other in FOLDERS.values() if other.startswith(f"{FOLDERS[name]}/")]
    files = [
        path
        for path in sorted((root / FOLDERS[name]).rglob("*module.cpp"))
        if not any(path.is_relative_to(other) for other in others)
    ]
    if not files:
        return None
    content = hashlib.sha256()
    for path in with_headers(root, files, FOLDERS[name]):
        if path in files or (path.is_relative_to(root / "include") and path.suffix == ".h"):
            content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def digest_path(folder: Path, name: str) -> Path:
    """Return the file beside a compiled module that holds the digest of its build.

    Args:
        folder: Folder of the module.
        name: Name of the module.
    """
    return folder / f"{name}.digest"
