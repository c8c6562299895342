"""What trained a policy: versions of the software, and the commit of a checkout."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import subprocess
from importlib import resources

from dcgym._version import __version__

__all__ = ["versions_of"]

GIT_DEADLINE_S = 5.0


def versions_of(packages: tuple[str, ...]) -> dict[str, object]:
    """Return versions by package, and the commit of our sources where they are a checkout.

    Args:
        packages: Names of the packages that a learner uses; those that are missing are left out.
    """
    found: dict[str, object] = {"dcgym": __version__, "python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found | {"commit": _commit()}


def _commit() -> str | None:
    """Return the commit, with a "+" where files differ from it; None outside a checkout."""
    home = str(resources.files("dcgym"))
    command = ["git", "-C", home, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_DEADLINE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
