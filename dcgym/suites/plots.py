"""What all figures of a report share: the plotting library, colours, means with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from dcgym.errors import MissingDependency
from dcgym.suites.layout import Column
from dcgym.suites.statistics import interval_95

__all__ = ["Records", "bar_half", "cell", "colour", "plotly", "policies_of", "spread"]

# The palette of Okabe and Ito, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")

Records = Sequence[Mapping[str, Any]]


def plotly(module: str) -> Any:
    """Import a module of plotly.

    Raises:
        MissingDependency: plotly is not installed.
    """
    try:
        return import_module(f"plotly.{module}")
    except ImportError as error:
        raise MissingDependency("plotly", "report") from error


def policies_of(records: Records) -> list[str]:
    """Return the policies in the order of their first appearance."""
    return list(dict.fromkeys(str(record["policy"]) for record in records))


def colour(records: Records, policy: str) -> str:
    """Return the colour of a policy in all figures about these records."""
    return COLOURS[policies_of(records).index(policy) % len(COLOURS)]


def spread(records: Records, policy: str, column: Column) -> tuple[float, float]:
    """Return the mean of a policy's runs, and the half width of its 95 % interval."""
    runs = [record for record in records if record["policy"] == policy]
    values = [float(run["metrics"].get(column.metric, math.nan)) for run in runs]
    return interval_95([value / column.divisor for value in values])


def bar_half(half: float) -> float:
    """Return the length of an error bar; none for a single run."""
    return 0.0 if math.isnan(half) else half


def cell(mean: float, half: float) -> str:
    """Write a mean and the half width of its interval for a table."""
    if math.isnan(mean):
        return "-"
    return f"{mean:.4g}" + ("" if math.isnan(half) else f" ± {half:.3g}")
