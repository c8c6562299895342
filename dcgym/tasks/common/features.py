"""Observations made of named features, and of their changes since the last observation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_list
from dcgym.errors import ConfigError

__all__ = [
    "CHANGE_PREFIX",
    "Changes",
    "ShownFeatures",
    "check_features",
    "label_columns",
    "with_changes",
]

CHANGE_PREFIX = "d_"
"""What the name of a feature's change begins with."""

Mask = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)


def with_changes(names: Sequence[str]) -> list[str]:
    """Return the names of features, and then those of their changes.

    Args:
        names: Names of the features.
    """
    return [*names, *(CHANGE_PREFIX + name for name in names)]


def check_features(names: object, known: Sequence[str], least: int = 1) -> tuple[str, ...]:
    """Return the names if each is a feature's, and none comes twice.

    Args:
        names: What the user wrote.
        known: What an observation may be made of.
        least: How many there have to be.

    Raises:
        ConfigError: They are something else.
    """
    chosen = check_list("features", names, "a list of feature names")
    for name in chosen:
        check_in("features", name, known)
    if len(chosen) < least:
        raise ConfigError("features", names, known)
    if len(set(chosen)) != len(chosen):
        raise ConfigError("features", chosen, "each feature once")
    return tuple(chosen)


def label_columns(labels: Iterable[str]) -> tuple[str, ...]:
    """Return what an observation holds of its rows: what follows the last dot of its labels.

    Args:
        labels: Label of each position, such as `server0.ongoing`.

    Returns:
        Each name once, in the order in which it comes first, whatever the number of rows.
    """
    return tuple(dict.fromkeys(label.rpartition(".")[2] for label in labels))


@dataclass(frozen=True)
class ShownFeatures:
    """What a row shows: features, and changes of features.

    Attributes:
        names: Names of its positions.
    """

    names: tuple[str, ...]

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """The features that they are made of, each once."""
        return tuple(dict.fromkeys(name.removeprefix(CHANGE_PREFIX) for name in self.names))

    @cached_property
    def columns(self) -> tuple[tuple[int, bool], ...]:
        """Of each position the number of its feature in `measured`, and if its change is shown."""
        return tuple(
            (self.measured.index(name.removeprefix(CHANGE_PREFIX)), name.startswith(CHANGE_PREFIX))
            for name in self.names
        )

    @cached_property
    def has_changes(self) -> bool:
        """Whether a change is shown."""
        return any(is_change for _, is_change in self.columns)

    @property
    def lows(self) -> list[float]:
        """The least value of each position; the greatest one is 1."""
        return [-1.0 if is_change else 0.0 for _, is_change in self.columns]


class Changes(Generic[Number]):
    """What the last two observations of some copies were made of; axes as the user likes, E first.

    Attributes:
        now: Of the last observation; None before the first.
        last: Of the one before it, in each copy; on the first of an episode the same.
    """

    def __init__(self) -> None:
        self.now: npt.NDArray[Number] | None = None
        self.last: npt.NDArray[Number] | None = None

    def note(
        self, now: npt.NDArray[Number], is_first: bool | Mask = False, new: Mask | None = None
    ) -> None:
        """Take in what an observation is made of.

        Args:
            now: Its features.
            is_first: Whether an episode begins; or in which copies, (E,).
            new: Copies that have been measured, (E,): those of the others stand in `now` as they
                were. None for all.
        """
        before = now if self.now is None else self.now
        if new is None and not isinstance(is_first, np.ndarray):
            self.last = now if is_first else before
        else:
            axes = (-1, *[1] * (now.ndim - 1))
            first = np.reshape(is_first, axes)
            last = np.where(first, now, before)
            if new is not None:
                # Copies that are not measured keep what their last observation was made of.
                kept = now if self.last is None else self.last
                last = np.where(new.reshape(axes), last, kept)
            self.last = last
        self.now = now
