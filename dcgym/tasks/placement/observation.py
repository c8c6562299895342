"""What is seen of the candidates and of the VIP, in numbers from 0 to 1.

A row for each action: the candidates, then the muxes, which are of no tier. What concerns all rows
follows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.tasks.placement.view import COLUMNS, Candidates

__all__ = ["COMMON", "ROWS", "write_rows"]

ROWS = (
    *("link", "memory", "hops", "mru", "own_sources", "own_dips", "nearby_sources", "nearby_dips"),
    *("is_rack", "is_agg", "is_core", "is_feasible"),
)
"""Columns of a row."""

COMMON = (
    *("vip_rate", "vip_share", "vip_dips", "vip_internet", "vip_source_racks", "vip_dip_racks"),
    *("link_max", "link_mean", "memory_max", "placed_share", "entries_left", "vips_left"),
)
"""What concerns all rows."""

MOST_HOPS = 8.0
_TIER = COLUMNS.index("tier")
_N_SHOWN = ROWS.index("is_rack")
_SCALE = np.array([0.5, 0.5, 1 / MOST_HOPS, 0.5, 1, 1, 1, 1])
_FEASIBLE = ROWS.index("is_feasible")
_TIERS = np.eye(3, dtype=np.float32)


def write_rows(candidates: Candidates, out: npt.NDArray[np.float32]) -> None:
    """Write the rows of all actions, zeros where there is no candidate.

    Utilisations are halved, so that 0.5 is full, and everything is cut off at 1.

    Args:
        candidates: The candidates; none where no VIP is left.
        out: Where to, (rows, columns); the last row is the muxes'.
    """
    raw, n = candidates.rows, len(candidates.switches)
    out[n:] = 0.0
    out[-1, _FEASIBLE] = 1.0
    if not n:
        return
    np.multiply(raw[:, :_N_SHOWN], _SCALE, out=out[:n, :_N_SHOWN], casting="same_kind")
    out[:n, _N_SHOWN:_FEASIBLE] = _TIERS[raw[:, _TIER].astype(np.intp)]
    out[:n, _FEASIBLE] = candidates.feasible
    np.minimum(out[:n], 1.0, out=out[:n])
