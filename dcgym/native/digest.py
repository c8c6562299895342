"""Which sources a compiled module was built from, as far as its callers depend on them.

`setup.py` loads this file by its path, before the package can be imported.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["digest_path", "interface_digest"]

FOLDERS = {
    "_native": "kernel",
    "_simulation": "twin",
    "_packets": "twin/packets",
    "_measure": "measure",
    "_placement": "placement",
}


def interface_digest(root: Path, name: str) -> str | None:
    """Return a digest of a module's bindings and of the layouts it shares; None without sources.

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
    for path in [*files, *sorted((root / "include").glob("*.h"))]:
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def digest_path(folder: Path, name: str) -> Path:
    """Return the file beside a compiled module that holds the digest of its build.

    Args:
        folder: Folder of the module.
        name: Name of the module.
    """
    return folder / f"{name}.digest"
