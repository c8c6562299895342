"""A machine on which nothing was compiled, such as one that only reads results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

__all__ = ["hide_natives"]

MODULES = ("_native", "_simulation", "_packets", "_placement", "_measure")


def hide_natives(patch: pytest.MonkeyPatch, empty: Path) -> None:
    """Let nothing be compiled.

    Args:
        patch: Undoes it.
        empty: A folder without programs and BPF objects.
    """
    import dcgym.native

    for name in MODULES:
        patch.setitem(sys.modules, f"dcgym.native.{name}", None)
    patch.setattr("dcgym.native._root", lambda: empty)
    found = dcgym.native.missing_parts()
    assert {*found} >= {*MODULES, *dcgym.native.BPF_OBJECTS, *dcgym.native.PROGRAMS}
