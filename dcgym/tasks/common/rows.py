"""Observations that are a table: one row for each thing that an agent chooses among."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.config import check_flag, check_int

__all__ = ["RowLayout", "row_inputs", "rows_of"]


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


def row_inputs(layout: RowLayout) -> int:
    """Return how many numbers the network sees of one row.

    Args:
        layout: Layout of what is shown.
    """
    return 2 * (layout.row_columns + layout.action_columns) + layout.common_columns


def rows_of(shown: npt.NDArray[np.float32], layout: RowLayout) -> npt.NDArray[np.float32]:
    """Return what the network sees of each row: it, the mean over all, and what is common.

    Args:
        shown: What is shown of one observation or of many, (..., layout.size).
        layout: Its layout.

    Returns:
        Shape (..., n_rows, row_inputs(layout)).
    """
    n, many = layout.n_rows, shown.shape[:-1]
    measured = shown[..., layout.measured].reshape(*many, n, layout.row_columns)
    actions = shown[..., layout.actions].reshape(*many, n, layout.action_columns)
    rows = np.concatenate([measured, actions], axis=-1)
    if layout.is_padded:
        counted = (measured != 0).any(axis=-1, keepdims=True)
        total = np.where(counted, rows, 0).sum(axis=-2, keepdims=True)
        mean = total / np.maximum(counted.sum(axis=-2, keepdims=True), 1)
    else:
        mean = rows.mean(axis=-2, keepdims=True)
    means = np.broadcast_to(mean.astype(rows.dtype), rows.shape)
    common = shown[..., None, layout.common]
    each = np.broadcast_to(common, (*many, n, layout.common_columns))
    return np.concatenate([rows, means, each], axis=-1)
