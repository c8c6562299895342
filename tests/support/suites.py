"""Suites whose records are looked at, and not the report on them, or not its figures."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from dcgym.backends.records import Record
from dcgym.suites import Suite
from dcgym.suites.recorders.pool import PoolRecorder
from dcgym.suites.runner import run_matrix

__all__ = ["leave_comparisons_out", "leave_figures_empty", "run_without_report"]

# A reward that asks for no second pool.
ALONE = "log_ongoing"


def run_without_report(suite: Suite, out: Path) -> list[Record]:
    """Run a suite as `run_suite` does; its figures would take longer to draw than it lasts."""
    complete, refused = run_matrix(suite, out, "invalid", lambda *_: None)
    assert not refused
    return complete


def leave_comparisons_out(patch: pytest.MonkeyPatch, module: str) -> None:
    """Let pools run alone: without the shadow of the reward and the best rules of the regret.

    These are up to three more simulations of the same flows for each of ours. Rules do not look at
    rewards: what happens to the flows is the same to the bit.

    Args:
        patch: Undoes it.
        module: Where an experiment makes its cases.
    """
    make = importlib.import_module(module).case_of
    patch.setattr(f"{module}.case_of", partial(make, reward=ALONE))
    patch.setattr(PoolRecorder, "_against_best", lambda *_: {})


class _EmptyFigure:
    """A figure of a page, written without its axes."""

    axes = ()

    def colorbar(self, *_: object, **__: object) -> None:
        """Take what would be drawn."""

    def findobj(self, _: object) -> tuple[()]:
        return ()

    def savefig(self, out: TextIO, **_: object) -> None:
        out.write("<svg></svg>")


class _EmptySpines:
    """Lines around the axes that nobody sees."""

    def __getitem__(self, _: object) -> _EmptySpines:
        return self

    def set_visible(self, _: bool) -> None:
        """Take what would be drawn."""


class _EmptyAxes:
    """Axes that take what is drawn, and keep nothing but their scales."""

    def __init__(self) -> None:
        self._scales = {"x": "linear", "y": "linear"}
        self.spines = _EmptySpines()
        self.set_xscale = partial(self._scales.__setitem__, "x")
        self.set_yscale = partial(self._scales.__setitem__, "y")
        self.get_xscale = partial(self._scales.__getitem__, "x")
        self.get_yscale = partial(self._scales.__getitem__, "y")

    def get_xlim(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def __getattr__(self, name: str) -> Callable[..., None]:
        from matplotlib.axes import Axes

        assert callable(getattr(Axes, name)), "of real ones"
        return lambda *_, **__: None


def leave_figures_empty(patch: pytest.MonkeyPatch) -> None:
    """Let reports have figures without content, which takes longer to draw than short runs do."""
    pytest.importorskip("matplotlib.axes")
    for module in ("report", "curves", "maps", "winners", "completion", "learning"):
        make = f"dcgym.suites.reports.{module}.make_axes"
        patch.setattr(make, lambda *_: (_EmptyFigure(), _EmptyAxes()))
