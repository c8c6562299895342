"""What each VIP gets from each rack in one epoch, and where its DIPs are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dcgym.config import check_positive
from dcgym.errors import ConfigError

__all__ = ["INTERNET", "VipTable", "lengths"]

INTERNET = "internet"
"""The source outside the data centre, in files."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class VipTable:
    """Traffic and DIPs of V VIPs in one epoch, as rows of compressed tables.

    Row v of the sources lies between ``source_start[v]`` and ``source_start[v + 1]``, with every
    rack once; that of the DIPs alike.

    Attributes:
        source_start: First source of each VIP, (V + 1,).
        source_rack: Rack of each source.
        source_bps: What it sends to the VIP.
        internet_bps: What the Internet sends to each VIP, (V,).
        dip_start: First rack with DIPs of each VIP, (V + 1,).
        dip_rack: That rack.
        dip_count: DIPs there.
        level: Level of each VIP in the graph of dependencies, (V,): sources of level 0 are no
            DIPs, those of level n + 1 are DIPs of level n; None where it is not known.
    """

    source_start: npt.NDArray[np.uint64]
    source_rack: npt.NDArray[np.uint32]
    source_bps: FloatArray
    internet_bps: FloatArray
    dip_start: npt.NDArray[np.uint64]
    dip_rack: npt.NDArray[np.uint32]
    dip_count: npt.NDArray[np.uint32]
    level: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        sources: Sequence[dict[int, float]],
        dips: Sequence[dict[int, int]],
        internet_bps: Sequence[float] | None = None,
    ) -> VipTable:
        """Return the table of VIPs that are given one by one.

        Args:
            sources: Of each VIP, what each rack sends, in bit/s.
            dips: Of each VIP, the DIPs in each rack.
            internet_bps: What the Internet sends to each; nothing if None.

        Raises:
            ConfigError: The lengths differ, a rate is negative, or a VIP has no DIP.
        """
        outside = np.zeros(len(sources)) if internet_bps is None else np.array(internet_bps)
        if not len(sources) == len(dips) == len(outside):
            lengths = (len(sources), len(dips), len(outside))
            raise ConfigError("vips", lengths, "as many rows of sources as of DIPs")
        made = cls(
            _starts([len(row) for row in sources]),
            np.array([rack for row in sources for rack in row], np.uint32),
            np.array([bps for row in sources for bps in row.values()], np.float64),
            outside.astype(np.float64),
            _starts([len(row) for row in dips]),
            np.array([rack for row in dips for rack in row], np.uint32),
            np.array([count for row in dips for count in row.values()], np.uint32),
        )
        made.check()
        return made

    def __len__(self) -> int:
        return len(self.internet_bps)

    @cached_property
    def bps(self) -> FloatArray:
        """What each VIP gets from everywhere, (V,)."""
        return self.internet_bps + _sums(self.source_start, self.source_bps)

    @cached_property
    def dips(self) -> npt.NDArray[np.int64]:
        """DIPs of each VIP, (V,)."""
        return _sums(self.dip_start, self.dip_count).astype(np.int64)

    @cached_property
    def order(self) -> npt.NDArray[np.uint32]:
        """The VIPs by traffic, the largest first; of equals the first, (V,)."""
        return np.argsort(-self.bps, kind="stable").astype(np.uint32)

    @cached_property
    def n_sources(self) -> npt.NDArray[np.int64]:
        """Racks that send to each VIP, (V,)."""
        return lengths(self.source_start)

    @cached_property
    def n_dip_racks(self) -> npt.NDArray[np.int64]:
        """Racks with DIPs of each VIP, (V,)."""
        return lengths(self.dip_start)

    def scaled(self, factor: float) -> VipTable:
        """Return the table with all traffic times a factor.

        Args:
            factor: Above 0.
        """
        factor = check_positive("factor", factor)
        return replace(
            self, source_bps=self.source_bps * factor, internet_bps=self.internet_bps * factor
        )

    def check(self, racks: int | None = None) -> None:
        """Refuse what no data centre can have.

        Args:
            racks: Racks of the data centre; None where that is not known yet.

        Raises:
            ConfigError: There are no VIPs, one has no DIP, a rate is negative or no number, a rack
                appears twice in a row or is not there.
        """
        if not len(self):
            raise ConfigError("vips", 0, "1 VIP or more")
        for bps in (self.source_bps, self.internet_bps):
            if not np.isfinite(bps).all() or (bps < 0).any():
                wrong = bps[~(np.isfinite(bps) & (bps >= 0))][0]
                raise ConfigError("vips rate", float(wrong), "0 bit/s or more")
        without = np.flatnonzero(self.dips == 0)
        if without.size:
            raise ConfigError(f"DIPs of VIP {without[0]}", 0, "1 or more")
        for field, start, rack in (
            ("source", self.source_start, self.source_rack),
            ("DIP", self.dip_start, self.dip_rack),
        ):
            vip = np.repeat(np.arange(len(self)), lengths(start))
            # Not by np.unique, which takes fifty times as long for such numbers.
            pairs = np.sort((vip << 32) + rack.astype(np.int64))
            if (pairs[1:] == pairs[:-1]).any():
                raise ConfigError(f"vips {field} racks", "one twice", "each rack once for a VIP")
            if racks is not None and (rack >= racks).any():
                wrong = int(rack[rack >= racks][0])
                raise ConfigError(f"vips {field} rack", wrong, f"0 to {racks - 1}")


def lengths(start: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return how many entries each row has, (V,).

    Args:
        start: First entry of each row, (V + 1,).
    """
    ends = start.astype(np.int64)
    return ends[1:] - ends[:-1]


def _starts(lengths: Sequence[int]) -> npt.NDArray[np.uint64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)


def _sums(start: npt.NDArray[np.uint64], values: npt.NDArray[np.generic]) -> FloatArray:
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    ends = start.astype(np.int64)
    sums: FloatArray = total[ends[1:]] - total[ends[:-1]]
    return sums
