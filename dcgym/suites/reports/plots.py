"""What all figures of a report share: the plotting library, colours, means with intervals."""

from __future__ import annotations

import math
from importlib import import_module
from types import ModuleType
from typing import Protocol

from dcgym.errors import MissingDependency
from dcgym.suites.reports.layout import Column, policies_of, runs_of
from dcgym.suites.results import Records
from dcgym.suites.statistics import interval_95

__all__ = ["Figure", "bar_half", "cell", "colour", "embed", "plotly", "spread"]

# The palette of Okabe and Ito, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


class Figure(Protocol):
    """What is asked of a figure of plotly, which has no types."""

    def add_trace(self, trace: object, *, row: int, col: int) -> object:
        """Draw something into a cell of the grid."""

    def update_layout(self, **settings: object) -> object:
        """Change the settings of the figure."""

    def update_xaxes(self, **settings: object) -> object:
        """Change the settings of the horizontal axes."""

    def to_html(self, *, full_html: bool, include_plotlyjs: bool) -> object:
        """Return it as HTML."""


def plotly(module: str) -> ModuleType:
    """Import a module of plotly.

    Args:
        module: Name below the package.

    Raises:
        MissingDependency: plotly is not installed.
    """
    try:
        return import_module(f"plotly.{module}")
    except ImportError as error:
        raise MissingDependency("plotly", "report") from error


def colour(records: Records, policy: str) -> str:
    """Return the colour of a policy in all figures about these records.

    Args:
        records: Records of runs.
        policy: Name of the policy.
    """
    return COLOURS[policies_of(records).index(policy) % len(COLOURS)]


def spread(records: Records, policy: str, column: Column) -> tuple[float, float]:
    """Return the mean of a policy's runs, and the half width of its 95 % interval.

    Args:
        records: Records of runs.
        policy: Name of the policy.
        column: The metric.
    """
    runs = runs_of(records, policy)
    values = [float(run["metrics"].get(column.metric, math.nan)) for run in runs]
    return interval_95([value / column.divisor for value in values])


def bar_half(half: float) -> float:
    """Return the length of an error bar; none for a single run.

    Args:
        half: Half width of an interval, or NaN.
    """
    return 0.0 if math.isnan(half) else half


def cell(mean: float, half: float) -> str:
    """Write a mean and the half width of its interval for a table.

    Args:
        mean: The mean, or NaN.
        half: The half width, or NaN.
    """
    if math.isnan(mean):
        return "-"
    return f"{mean:.4g}" + ("" if math.isnan(half) else f" ± {half:.3g}")


def embed(figure: Figure, is_first: bool) -> str:
    """Return a figure as HTML; the first one carries the library, so that no network is needed.

    Args:
        figure: The figure.
        is_first: Whether it is the first one of its file.
    """
    return str(figure.to_html(full_html=False, include_plotlyjs=is_first))
