"""What a network is shown of the observations: scaled, and the last few in a row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, read_numbers
from dcgym.errors import ConfigError
from dcgym.tasks.common.rows import RowLayout

__all__ = ["CLIP", "History", "View"]

Array = npt.NDArray[np.float32]

CLIP = 10.0
"""Scaled observations end here, as in the libraries: ten standard deviations."""

LEAST_SCALE = 1e-3
"""Least standard deviation: what hardly moved in the samples is not blown up."""

MOST_FRAMES = 64


@dataclass(frozen=True, eq=False)
class View:
    """How observations are shown to a network.

    Attributes:
        size: Length of one observation.
        rows: Layout of one observation, where it is a table.
        frames: Observations in a row, the oldest first. The first one of an episode stands for
            those before it.
        mean: What is subtracted, (size,); empty where nothing is scaled.
        scale: What the difference is divided by, (size,); empty where nothing is scaled.
    """

    size: int
    rows: RowLayout | None = None
    frames: int = 1
    mean: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    scale: Array = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self) -> None:
        """Check that the parts fit.

        Raises:
            ConfigError: They do not.
        """
        read_numbers(self)
        check_int("size", self.size, 1)
        check_int("frames", self.frames, 1, MOST_FRAMES)
        if self.rows is not None and self.rows.size != self.size:
            raise ConfigError("rows", f"of {self.rows.size}", f"a layout of {self.size} numbers")
        for name in ("mean", "scale"):
            values = getattr(self, name)
            if values.shape not in ((0,), (self.size,)) or not np.isfinite(values).all():
                raise ConfigError(name, values.shape, f"{self.size} finite numbers, or none")
        if self.mean.shape != self.scale.shape or (self.scale <= 0).any():
            raise ConfigError("scale", self.scale.shape, "a positive number for each mean")

    @property
    def is_scaled(self) -> bool:
        """Whether observations are scaled."""
        return self.mean.size > 0

    @property
    def shown_size(self) -> int:
        """Length of what the network is shown."""
        return self.size * self.frames

    @property
    def shown_rows(self) -> RowLayout | None:
        """Layout of what the network is shown."""
        if self.rows is None:
            return None
        rows, n = self.rows, self.frames
        columns = rows.row_columns * n, rows.common_columns * n, rows.action_columns * n
        return RowLayout(rows.n_rows, *columns, rows.is_padded)

    def measured(self, samples: npt.NDArray[np.float32]) -> View:
        """Return the view that scales as these observations ask for; all rows are scaled alike.

        Args:
            samples: Observations, (n, size).
        """
        mean, deviation = samples.mean(axis=0), samples.std(axis=0)
        if self.rows is not None:
            mean, deviation = _alike(self.rows, samples)
        scale = np.maximum(deviation, LEAST_SCALE)
        return replace(self, mean=mean.astype(np.float32), scale=scale.astype(np.float32))

    def scaled(self, observations: npt.NDArray[np.float32]) -> Array:
        """Return observations as they are shown one by one.

        Args:
            observations: Any number of them, (..., size).
        """
        if not self.is_scaled:
            return np.asarray(observations, np.float32)
        shown: Array = np.clip((observations - self.mean) / self.scale, -CLIP, CLIP)
        return shown.astype(np.float32, copy=False)

    def in_a_row(self, frames: Array) -> Array:
        """Return scaled observations in a row, (S, shown_size); rows stay together.

        Args:
            frames: The oldest first, (frames, S, size).
        """
        if self.frames == 1:
            only: Array = frames[0]
            return only
        if self.rows is None:
            return np.concatenate(list(frames), axis=-1)
        n = self.rows.n_rows
        parts = []
        for where, n_rows in (
            (self.rows.measured, n),
            (self.rows.common, 1),
            (self.rows.actions, n),
        ):
            width = (where.stop - where.start) // n_rows
            each = [frame[:, where].reshape(len(frame), n_rows, width) for frame in frames]
            row = np.concatenate(each, axis=-1)
            parts.append(row.reshape(len(row), n_rows * width * self.frames))
        return np.concatenate(parts, axis=-1)


class History:
    """The last observations of some slots."""

    def __init__(self, view: View, n_slots: int = 1) -> None:
        """Begin without any.

        Args:
            view: How they are shown.
            n_slots: Number of slots.
        """
        self._view = view
        self._frames: Array = np.zeros((view.frames, n_slots, view.size), np.float32)

    def push(self, observations: npt.NDArray[np.float32], begins: npt.NDArray[np.bool_]) -> Array:
        """Add an observation of each slot; returns what their networks are shown.

        Args:
            observations: One for each slot, (S, size).
            begins: Slots in which it is the first one of an episode, (S,).
        """
        scaled = self._view.scaled(observations)
        if self._view.frames == 1:
            return scaled
        self._frames = np.concatenate([self._frames[1:], scaled[None]])
        self._frames[:, begins] = scaled[begins]
        return self._view.in_a_row(self._frames)

    def begin(self, observations: npt.NDArray[np.float32], slots: npt.NDArray[np.bool_]) -> Array:
        """Begin an episode in some slots, and leave the others; returns what those are shown.

        Args:
            observations: One for each slot, (S, size).
            slots: Those that begin, (S,).
        """
        scaled = self._view.scaled(observations)
        self._frames[:, slots] = scaled[slots]
        return self._view.in_a_row(self._frames[:, slots])


def _alike(rows: RowLayout, samples: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of each position, the same for all rows."""
    means, deviations = [], []
    n = rows.n_rows
    for where, n_rows in ((rows.measured, n), (rows.common, 1), (rows.actions, n)):
        if where.stop > where.start:
            values = samples[:, where].reshape(len(samples) * n_rows, -1)
            means.append(np.tile(values.mean(axis=0), n_rows))
            deviations.append(np.tile(values.std(axis=0), n_rows))
    return np.concatenate(means), np.concatenate(deviations)
