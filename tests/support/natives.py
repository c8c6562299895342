"""A machine on which nothing was compiled, such as one that only reads results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dcgym.native

__all__ = ["hide_natives"]


def hide_natives(patch: pytest.MonkeyPatch, empty: Path) -> None:
    """Let nothing be compiled.

    Args:
        patch: Undoes it.
        empty: A folder without programs and BPF objects.
    """
    for name in dcgym.native.MODULES:
        patch.setitem(sys.modules, f"dcgym.native.{name}", None)
    patch.setattr("dcgym.native._root", lambda: empty)
    found = dcgym.native.missing_parts()
    native = dcgym.native
    assert {*found} >= {*native.MODULES, *native.BPF_OBJECTS, *native.PROGRAMS}
