"""Trained policies that come with the package, by name: small files, and NumPy acts."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from dcgym.registry import Registry

__all__ = ["TRAINED", "folder_of"]

TRAINED: Registry[Path] = Registry("trained policies", "checkpoint")
"""Folders of checkpoints by name. A package that brings one adds it."""


def folder_of(checkpoint: str | Path) -> Path:
    """Return the folder of a checkpoint that is a path, or the name of a trained policy.

    Args:
        checkpoint: A path, which wins where there is such a folder, or a name.
    """
    name, path = str(checkpoint), Path(checkpoint)
    # Asked first: what is no name may be no path either.
    return TRAINED[name] if name in TRAINED.names() and not path.exists() else path


# The package is a folder on disk: the native parts do not load from an archive either.
_HERE = Path(str(files(__package__ or ""))) / "learned" / "trained"
TRAINED.add(
    "balancing-v1",
    _HERE / "balancing-v1",
    "Weights of servers from measured times; CMA-ES on the draws of the split balancing-v1.",
)
