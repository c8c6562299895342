"""Observations that are a table: one row for each thing that an agent chooses among."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.config import check_flag, check_int

__all__ = ["RowLayout"]


@dataclass(frozen=True)
class RowLayout:
    """Where the rows of a flat observation are, for networks that treat all rows alike.

    The observation holds the measurements of each row, row by row; then what concerns all rows;
    then the last action, row by row again. The action has as many rows.

    Attributes:
        n_rows: Number of rows: servers, ports or hosts.
        row_columns: Measurements of one row.
        common_columns: Measurements that concern all rows.
        action_columns: Numbers of the last action that belong to one row.
        is_padded: Whether rows may stand for nothing, as in draws of several sizes. Their
            measurements are all zero: such rows count in no mean.
    """

    n_rows: int
    row_columns: int
    common_columns: int = 0
    action_columns: int = 1
    is_padded: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_int("n_rows", self.n_rows, 1)
        check_int("row_columns", self.row_columns, 1)
        check_int("common_columns", self.common_columns, 0)
        check_int("action_columns", self.action_columns, 0)
        check_flag("is_padded", self.is_padded)

    @property
    def measured(self) -> slice:
        """The measurements of all rows."""
        return slice(0, self.n_rows * self.row_columns)

    @property
    def common(self) -> slice:
        """What concerns all rows."""
        return slice(self.measured.stop, self.measured.stop + self.common_columns)

    @property
    def actions(self) -> slice:
        """The last action."""
        return slice(self.common.stop, self.common.stop + self.n_rows * self.action_columns)

    @property
    def size(self) -> int:
        """Length of the observation."""
        return int(self.actions.stop)
