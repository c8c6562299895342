"""Which metrics tables and reports show of a task's runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dcgym.tasks.common.meanings import MEANINGS

__all__ = ["CENSORED", "Column", "Layout"]


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
        better: The better end, "high" or "low"; "" where there is none, None for the usual one of
            a metric of this name.
        meaning: One sentence about it; None for the usual one of a metric of this name.
        is_optional: Shown only where a run has something else than 0.
    """

    metric: str
    title: str
    divisor: float = 1.0
    decimals: int = 3
    low: float | None = 0.0
    high: float | None = None
    better: str | None = None
    meaning: str | None = None
    is_optional: bool = False

    def __post_init__(self) -> None:
        """Take what is known of the metric's name where nothing was said."""
        better, meaning = MEANINGS.get(self.metric, ("", ""))
        if self.better is None:
            object.__setattr__(self, "better", better)
        if self.meaning is None:
            object.__setattr__(self, "meaning", meaning)

    @property
    def heading(self) -> str:
        """The title on two lines, the unit below."""
        return self.title.replace(", ", "\n")


CENSORED = Column("censored_share", "not ended, %", 0.01, 2, high=100.0, is_optional=True)
"""Beside completion times: how many of them are only known to be longer than what was seen."""


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

    @property
    def ends(self) -> dict[str, str]:
        """The better end, "high" or "low", of each metric that has one."""
        usual = {metric: end for metric, (end, _) in MEANINGS.items()}
        own = {column.metric: column.better or "" for column in self.columns}
        return {metric: end for metric, end in {**usual, **own}.items() if end}

    @property
    def main(self) -> Column | None:
        """What policies are compared by where nobody names a metric; None if no end is better.

        The reward only where there is nothing else: balancers with a rule have none.
        """
        known = [column for column in self.columns if column.better]
        return min(known, key=lambda column: column.metric == "reward_mean", default=None)
