"""VIPs that call each other: where their DIPs are says where the traffic of others comes from.

A VIP's traffic comes from the Internet, from servers behind no VIP, and from DIPs of VIPs that call
it. Callers and called ones form a graph without cycles. In order of that graph, the sources of a
VIP are known once the DIPs of all its callers are placed (Rubik, USENIX ATC 2015, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.traffic.vips.files import read_epochs
from dcgym.traffic.vips.table import FloatArray, VipTable, lengths

__all__ = ["ServiceGraph", "draw_services", "read_services"]

MOST_CALLERS = 100
CALL_SKEW = 1.0
_SEED = 31


@dataclass(frozen=True)
class ServiceGraph:
    """V VIPs and C calls among them.

    Attributes:
        table: DIPs, and the traffic that comes from no VIP.
        caller: VIP whose DIPs send, (C,).
        called: VIP that gets it, (C,).
        call_bps: How much, in bit/s, (C,).
    """

    table: VipTable
    caller: npt.NDArray[np.int64]
    called: npt.NDArray[np.int64]
    call_bps: FloatArray

    def __post_init__(self) -> None:
        """Check the calls.

        Raises:
            ConfigError: A call names no VIP, its rate is none, or VIPs call each other in a circle.
        """
        n = len(self.table)
        if not len(self.caller) == len(self.called) == len(self.call_bps):
            found = (len(self.caller), len(self.called), len(self.call_bps))
            raise ConfigError("calls", found, "as many callers as called VIPs and rates")
        for name, numbers in (("caller", self.caller), ("called", self.called)):
            for wrong in numbers[(numbers < 0) | (numbers >= n)]:
                raise ConfigError(f"calls {name}", int(wrong), f"a VIP, 0 to {n - 1}")
        for bps in self.call_bps[~(np.isfinite(self.call_bps) & (self.call_bps >= 0))]:
            raise ConfigError("calls rate", float(bps), "0 bit/s or more")
        _ = self.level

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def level(self) -> npt.NDArray[np.int64]:
        """Level of each VIP, (V,): 0 without callers, else one above its highest caller.

        Raises:
            ConfigError: VIPs call each other in a circle.
        """
        found = np.zeros(len(self), np.int64)
        waits = np.bincount(self.called, minlength=len(self))
        ready = np.flatnonzero(waits == 0).tolist()
        for vip in ready:
            for called in self.called[self.calls_by(vip)].tolist():
                found[called] = max(found[called], found[vip] + 1)
                waits[called] -= 1
                if waits[called] == 0:
                    ready.append(called)
        if len(ready) < len(self):
            circle = " -> ".join(map(str, self._circle(waits > 0)))
            raise ConfigError("calls", circle, "VIPs that do not call each other in a circle")
        return found

    @cached_property
    def bps(self) -> FloatArray:
        """What each VIP gets from everywhere, (V,), whatever racks it comes from."""
        total: FloatArray = self.table.bps + np.bincount(
            self.called, self.call_bps, minlength=len(self)
        )
        return total

    def calls_by(self, vip: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the calls that a VIP makes.

        Args:
            vip: Its number.
        """
        return self._by_caller[1][self._by_caller[0][vip] : self._by_caller[0][vip + 1]]

    def calls_of(self, vip: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the calls that a VIP gets.

        Args:
            vip: Its number.
        """
        return self._by_called[1][self._by_called[0][vip] : self._by_called[0][vip + 1]]

    def levels(self) -> list[npt.NDArray[np.int64]]:
        """Return the VIPs of each level, those without callers first, the largest first in each."""
        order = np.lexsort((np.arange(len(self)), -self.bps, self.level))
        return np.split(order, np.cumsum(np.bincount(self.level))[:-1])

    @cached_property
    def _by_caller(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return _grouped(self.caller, len(self))

    @cached_property
    def _by_called(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return _grouped(self.called, len(self))

    def _circle(self, is_left: npt.NDArray[np.bool_]) -> list[int]:
        """Return a circle of calls among VIPs of which each has a caller among them."""
        seen: list[int] = [int(np.flatnonzero(is_left)[0])]
        while True:
            callers = self.caller[self.calls_of(seen[-1])]
            before = int(callers[is_left[callers]][0])
            if before in seen:
                return [before, *reversed(seen[seen.index(before) :])]
            seen.append(before)


def draw_services(table: VipTable, seed: int) -> ServiceGraph:
    """Return VIPs whose calls replace what a synthetic trace says of the racks of called ones.

    VIPs of a level above 0 get all their traffic from DIPs of the level below, from as many callers
    as it takes to reach as many racks as in the trace, 100 at most. Rates of the calls are
    lognormal. How many callers a VIP has is not published.

    Args:
        table: A table of `SyntheticVips`, with levels.
        seed: Seed.

    Raises:
        ConfigError: The table has no levels.
    """
    level = table.level
    if level is None:
        raise ConfigError("vips.level", None, "the level of each VIP, as SyntheticVips draws it")
    generator = np.random.default_rng([seed, _SEED])
    at_level = [np.flatnonzero(level == one) for one in range(int(level.max()) + 1)]
    rows: list[tuple[int, int, float]] = []
    is_called = np.zeros(len(table), np.bool_)
    for vip in np.flatnonzero(level > 0).tolist():
        above = at_level[level[vip] - 1]
        if len(above) == 0:
            continue
        is_called[vip] = True
        callers = _callers(generator, above, int(table.n_sources[vip]), table)
        weight = np.exp(CALL_SKEW * generator.standard_normal(len(callers)))
        rates = weight / weight.sum() * float(table.bps[vip])
        rows.extend(zip(callers, [vip] * len(callers), rates.tolist(), strict=True))
    return ServiceGraph(
        _without_sources(table, is_called),
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.float64),
    )


def read_services(path: str | Path) -> ServiceGraph:
    """Read VIPs that call each other, of the first epoch of a file.

    Beside the rows of `read_vips`, one of role "caller" says what a VIP gets from another: its rack
    is the caller's name, its amount in bit/s.

    Args:
        path: A .csv or .parquet file.

    Raises:
        ConfigError: It cannot be read, a row says what cannot be, or VIPs call in a circle.
    """
    tables, calls = read_epochs(path, has_calls=True)
    own = [(caller, called, bps) for epoch, caller, called, bps in calls if epoch == 0]
    return ServiceGraph(
        tables[0],
        np.array([row[0] for row in own], np.int64),
        np.array([row[1] for row in own], np.int64),
        np.array([row[2] for row in own], np.float64),
    )


def _grouped(
    keys: npt.NDArray[np.int64], n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))]).astype(np.int64)
    return starts, np.argsort(keys, kind="stable")


def _callers(
    generator: np.random.Generator, above: npt.NDArray[np.int64], wanted: int, table: VipTable
) -> Sequence[int]:
    """Draw callers until their DIPs are in as many racks as are wanted."""
    most = min(MOST_CALLERS, len(above))
    racks: set[int] = set()
    chosen: list[int] = []
    for number in generator.choice(len(above), most, replace=False).tolist():
        caller = int(above[number])
        chosen.append(caller)
        first, last = int(table.dip_start[caller]), int(table.dip_start[caller + 1])
        racks.update(table.dip_rack[first:last].tolist())
        if len(racks) >= wanted:
            break
    return chosen


def _without_sources(table: VipTable, is_called: npt.NDArray[np.bool_]) -> VipTable:
    counts = lengths(table.source_start)
    kept = ~np.repeat(is_called, counts)
    starts = np.concatenate([[0], np.cumsum(np.where(is_called, 0, counts))]).astype(np.uint64)
    return VipTable(
        starts,
        table.source_rack[kept],
        table.source_bps[kept],
        np.where(is_called, 0.0, table.internet_bps),
        table.dip_start,
        table.dip_rack,
        table.dip_count,
    )
