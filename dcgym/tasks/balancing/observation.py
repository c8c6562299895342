"""The observation of a balancer: what it knows of its servers and of itself.

Per server a row of the features that are its own, in the order of the setting `features`; then
those of the balancer as a whole; then its last action, -1 to 1. The features are described in
`dcgym.tasks.balancing.features`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.tasks.balancing.features import (
    BALANCER_FEATURES,
    DEFAULT_FEATURES,
    BalancerFeature,
    Reading,
    Reduced,
)
from dcgym.tasks.balancing.interval import PoolInterval
from dcgym.tasks.common.features import (
    CHANGE_PREFIX,
    Changes,
    ShownFeatures,
    check_features,
    with_changes,
)
from dcgym.tasks.common.rows import RowLayout
from dcgym.tasks.common.statistics import FloatArray

__all__ = ["BalancerObservation", "ObservedChanges"]

Floats32 = npt.NDArray[np.float32]
ObservedChanges = Changes[np.float32]
"""What changes since the last observation are relative to, (E, A, n)."""


class BalancerObservation:
    """The observation space of one balancer, and how it is filled for many at once.

    Args:
        n_servers: Number of servers, N.
        names: Features in the order in which they are shown, and ``d_`` before one for its change.

    Attributes:
        n_measured: Positions that hold features; the last action follows.
        has_changes: Whether some of them hold changes.

    Raises:
        ConfigError: A name is no feature's or comes twice, or there is none.
    """

    def __init__(self, n_servers: int, names: Sequence[str] = DEFAULT_FEATURES) -> None:
        """Build the space."""
        shown = ShownFeatures(check_features(names, with_changes(BALANCER_FEATURES.names())))
        self._n_servers, self.has_changes = n_servers, shown.has_changes
        self._row_names = [name for name in shown.names if _feature(name).is_of_servers]
        self._common_names = [name for name in shown.names if not _feature(name).is_of_servers]
        self._filler = _Filler(n_servers, shown.measured)
        base = _labels(n_servers, *(map(_base, n) for n in (self._row_names, self._common_names)))
        self.n_measured = len(base)
        place = {label: at for at, label in enumerate(self._filler.labels)}
        # Of each position: where its feature stands among those that are measured.
        self._at = np.array([place[label] for label in base], np.int64)
        lows = dict(zip(shown.names, shown.lows, strict=True))
        low = np.array(
            [lows[name] for name in self._row_names * n_servers + self._common_names]
            + [-1.0] * n_servers,
            np.float32,
        )
        self._is_change = low[: self.n_measured] < 0
        self.space = gym.spaces.Box(low, np.ones_like(low), dtype=np.float32)

    @property
    def rows(self) -> RowLayout | None:
        """Where the row of each server is; None where no feature is of servers."""
        if not self._row_names:
            return None
        return RowLayout(self._n_servers, len(self._row_names), len(self._common_names))

    @property
    def labels(self) -> list[str]:
        """Name each position of the observation, as `server0.duration_mean`."""
        measured = _labels(self._n_servers, self._row_names, self._common_names)
        return measured + [f"server{j}.action" for j in range(self._n_servers)]

    def observe(
        self,
        interval: PoolInterval,
        last_actions: FloatArray,
        changes: ObservedChanges,
        is_first: npt.NDArray[np.bool_],
        new: npt.NDArray[np.bool_] | None = None,
    ) -> Floats32:
        """Return fresh observations, shape (E, A, n); on an episode's first every change is 0.

        Args:
            interval: What the balancers know.
            last_actions: Their last actions scaled to -1..1, shape (E, A, N).
            changes: What the last observation was made of.
            is_first: Copies whose episode begins, (E,).
            new: Copies of which the interval is new, (E,): those of the others has been observed
                before. None for all.
        """
        leading = last_actions.shape[:-1]
        observation = np.empty((*leading, *self.space.shape), np.float32)
        shown = observation[..., : self.n_measured]
        if self.has_changes:
            now = np.empty((*leading, self._filler.size), np.float32)
            self._filler.fill(interval, now)
            changes.note(now, is_first, new)
            assert changes.last is not None
            shown[...] = now[..., self._at]
            shown[..., self._is_change] -= changes.last[..., self._at[self._is_change]]
        else:
            self._filler.fill(interval, shown)
        observation[..., self.n_measured :] = last_actions
        return observation


class _Filler:
    """Writes features: row by row of the servers, then those of the balancer.

    Args:
        n_servers: Number of servers, N.
        names: The features.

    Attributes:
        size: Length of what is written for a balancer.
        labels: What stands where.
    """

    def __init__(self, n_servers: int, names: Sequence[str]) -> None:
        rows, common = (
            {name: one for name in names if (one := _feature(name)).is_of_servers == is_of_servers}
            for is_of_servers in (True, False)
        )
        self.labels = _labels(n_servers, rows, common)
        self.size = len(self.labels)
        self._n_servers, self._n_columns = n_servers, len(rows)
        self._end = n_servers * len(rows)
        self._row_parts, self._common_parts = _parts(rows.values()), _parts(common.values())
        each = [*rows.values()] * n_servers + [*common.values()]
        scales = [one.scale for one in each]
        self._scales = np.array([one or 1.0 for one in scales], np.float32)
        is_scaled = np.array([one is not None for one in scales], np.bool_)
        self._is_scaled = None if is_scaled.all() else is_scaled

    def fill(self, interval: PoolInterval, values: Floats32) -> None:
        """Write the features of an interval.

        Args:
            interval: What the balancers know.
            values: Where they belong, (E, A, size).
        """
        if self._row_parts:
            # A view: the assignments write into the values.
            rows = values[..., : self._end]
            rows = rows.reshape(*values.shape[:-1], self._n_servers, self._n_columns)
            for place, read in self._row_parts:
                rows[..., place] = read(interval)
        common = values[..., self._end :]
        for place, read in self._common_parts:
            common[..., place] = read(interval)
        values /= self._scales
        if self._is_scaled is None:
            np.divide(values, values + 1.0, out=values)
        else:
            np.divide(values, values + 1.0, out=values, where=self._is_scaled)
            np.clip(values, 0.0, 1.0, out=values)


def _parts(features: Iterable[BalancerFeature]) -> list[tuple[int | slice, Reading]]:
    """Return how to read features, those of one reservoir at once, and where each belongs."""
    reads = [one.read for one in features]
    runs: list[list[int]] = []
    for place, read in enumerate(reads):
        if runs and _follows(reads[runs[-1][-1]], read):
            runs[-1].append(place)
        else:
            runs.append([place])
    return [_part(reads[run[0]], run[0], len(run)) for run in runs]


def _part(first: Reading, place: int, size: int) -> tuple[int | slice, Reading]:
    if isinstance(first, Reduced) and size > 1:
        at = slice(first.at, first.at + size)
        return slice(place, place + size), partial(PoolInterval.reduced_s, name=first.field, at=at)
    return place, first


def _follows(one: Reading, other: Reading) -> bool:
    """Tell whether one read gives both."""
    if not isinstance(one, Reduced) or not isinstance(other, Reduced):
        return False
    return (one.field, one.at + 1) == (other.field, other.at)


def _labels(n_servers: int, rows: Iterable[str], common: Iterable[str]) -> list[str]:
    columns = list(rows)
    return [*(f"server{j}.{name}" for j in range(n_servers) for name in columns), *common]


def _base(name: str) -> str:
    return name.removeprefix(CHANGE_PREFIX)


def _feature(name: str) -> BalancerFeature:
    return BALANCER_FEATURES[_base(name)]
