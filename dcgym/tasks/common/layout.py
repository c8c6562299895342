"""Which metrics tables and reports show of a task's runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Column", "Layout"]


@dataclass(frozen=True)
class Column:
    """A metric and how it is shown.

    Attributes:
        metric: Name in the record's metrics, or of a column of the steps.
        title: Title with the unit.
        divisor: What one unit of the title is in the metric's own.
        decimals: Decimals, fewer where an interval says that they mean nothing.
        low: Least value there can be, in the unit of the title; None for no limit.
        high: Largest value there can be.
    """

    metric: str
    title: str
    divisor: float = 1.0
    decimals: int = 3
    low: float | None = 0.0
    high: float | None = None

    @property
    def heading(self) -> str:
        """The title on two lines, the unit below."""
        return self.title.replace(", ", "\n")


@dataclass(frozen=True)
class Layout:
    """What a table shows of the runs, and a report of one run's steps.

    Attributes:
        columns: Metrics of a run.
        series: Columns of the steps, over time.
        means: Name of a series and the prefix of the columns whose mean it is.
    """

    columns: tuple[Column, ...] = (Column("reward_mean", "reward", low=None),)
    series: tuple[Column, ...] = (Column("reward", "reward", low=None),)
    means: Mapping[str, str] = field(default_factory=dict)
