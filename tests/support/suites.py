"""Suites whose records are looked at, and not the report on them, or not its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcgym.backends.base import Record
from dcgym.suites import Suite
from dcgym.suites.runner import run_matrix

__all__ = ["leave_figures_empty", "run_without_report"]


def run_without_report(suite: Suite, out: Path) -> list[Record]:
    """Run a suite as `run_suite` does; its figures would take longer to draw than it lasts."""
    complete, refused = run_matrix(suite, out, "invalid", lambda *_: None)
    assert not refused
    return complete


def leave_figures_empty(patch: pytest.MonkeyPatch) -> None:
    """Let figures in reports be made and not drawn, which takes longer than short runs do."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    save = figure.savefig

    def save_unless_of_a_page(self: Any, out: Any, **options: Any) -> None:
        if options.get("format") == "svg":
            out.write("<svg></svg>")
        else:
            save(self, out, **options)

    patch.setattr(figure, "savefig", save_unless_of_a_page)
