"""Which racks get local mappings and DIPs: Rubik's integer program (USENIX ATC 2015, section 4.2).

Solved by HiGHS, through SciPy. The number of DIPs in a local mapping is the least that its traffic
asks for: more of them help no constraint, and are not worth anything. That leaves one binary for a
rack and VIP, y, and one integer for the DIPs there, x:

| constraint of the source | here |
|---|---|
| 1, tables | for each rack, sum of m y at most its free entries |
| 2, servers | for each rack, sum of x at most its DIPs now and its free slots |
| 3, DIPs | for each VIP, sum of x is the number of its DIPs |
| 4, failure domains | DIPs in f racks at least |
| 5a, local DIPs | x at least m y, where m DIPs carry what the rack sends |
| 5b, residual DIPs | they carry the rest |
| 6, moves | DIPs that arrive in a rack at most the moves left: each move counts once |

DIPs move only to racks that send to their VIP. A second program finds the fewest moves that reach
the same local bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_range, check_seconds, read_numbers
from dcgym.errors import ConfigError
from dcgym.tasks.placement.mappings import ROUNDING, FloatArray, IntArray, LocalMappings

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

__all__ = ["LevelReport", "SolverLimits", "localise"]

OPTIMAL, INFEASIBLE = 0, 2  # of SciPy
_Rows: TypeAlias = tuple[object, FloatArray | IntArray | float, FloatArray | IntArray | float]
FEWEST_DOMAINS = 2  # those that a bound on each rack alone ensures


@dataclass(frozen=True)
class SolverLimits:
    """When the solver may stop.

    Attributes:
        gap: Relative gap to the bound at which a solution counts as optimal.
        time_limit_s: Time for each level; the best solution found so far is taken then.
        most_pairs: Pairs of a rack and a VIP that may become local mappings, those of most traffic
            first; None for all.
    """

    gap: float = 0.01
    time_limit_s: float = 60.0
    most_pairs: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_range("gap", self.gap, 0.0, 1.0)
        check_seconds("time_limit_s", self.time_limit_s)
        if self.most_pairs is not None:
            check_int("most_pairs", self.most_pairs, 1)


@dataclass(frozen=True)
class LevelReport:
    """What the solver did with one level of the graph.

    Attributes:
        status: "optimal" within the gap; "time limit": the best that was found; "none in time":
            nothing was, DIPs stay and no mapping is local; "nothing to do".
        gap: Relative gap that is left; NaN where there is no solution.
        pairs: Binaries of the program.
        local_bps: What local mappings serve.
        bound_bps: What they could serve at most, as far as the solver knows.
        overloaded: VIPs that were left as they are because their DIPs carry too much already.
    """

    status: str
    gap: float
    pairs: int
    local_bps: float
    bound_bps: float
    overloaded: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Pairs:
    """Pairs of a VIP and a rack, (P,) each; the VIP by its place in the level."""

    vip: IntArray
    rack: IntArray
    bps: FloatArray
    now: IntArray
    needed: IntArray  # DIPs of a local mapping


def localise(
    state: LocalMappings, vips: Sequence[int], limits: SolverLimits, has_moves: bool = True
) -> LevelReport:
    """Give VIPs of one level local mappings, and move their DIPs; changes the state.

    VIPs whose DIPs carry more than they may already are left as they are. All others have a
    solution: DIPs stay, and nothing is local.

    Args:
        state: DIPs and mappings.
        vips: VIPs whose callers are placed.
        limits: When to stop.
        has_moves: Whether DIPs may move (Rubik), or only mappings change (Rubik-LO).

    Raises:
        ConfigError: A VIP has local mappings already, or the solver finds no solution at all.
    """
    chosen, overloaded = _fitting(state, vips)
    pairs = _pairs(state, chosen)
    program = _Program(state, chosen, pairs, limits, has_moves and state.moves_left > 0)
    n_binaries = len(program.local)
    if not n_binaries:
        return LevelReport("nothing to do", 0.0, 0, 0.0, 0.0, overloaded)
    found = program.solve(limits)
    if found.status == INFEASIBLE:
        allowed = "a program with a solution; DIPs that stay where they are should be one"
        raise ConfigError("locality", "infeasible", allowed)
    nan = float("nan")
    bound = nan if found.mip_dual_bound is None else -1e9 * float(found.mip_dual_bound)
    if found.x is None:
        return LevelReport("none in time", nan, n_binaries, 0.0, bound, overloaded)
    is_local = found.x[:n_binaries] > 0.5
    dips = program.dips(is_local, limits)
    if dips is None:
        return LevelReport("none in time", nan, n_binaries, 0.0, bound, overloaded)
    program.apply(is_local, dips)
    local_bps = float(pairs.bps[program.local[is_local]].sum())
    status = "optimal" if found.status == OPTIMAL else "time limit"
    gap = float(found.mip_gap) if found.mip_gap is not None else 0.0
    return LevelReport(status, gap, n_binaries, local_bps, bound, overloaded)


def _fitting(state: LocalMappings, vips: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """Divide VIPs into those that DIPs can carry, and others."""
    chosen, overloaded = list[int](), list[int]()
    for vip in vips:
        if state.local[vip]:
            raise ConfigError("vips", int(vip), "VIPs without local mappings")
        fits = state.services.bps[vip] <= state.n_dips[vip] * state.dip_bps[vip] * (1 + ROUNDING)
        (chosen if fits else overloaded).append(int(vip))
    return chosen, tuple(overloaded)


def _pairs(state: LocalMappings, vips: Sequence[int]) -> _Pairs:
    """Return racks that send to a VIP or have DIPs of it."""
    rows: list[tuple[IntArray, IntArray, FloatArray, IntArray, IntArray]] = []
    for place, vip in enumerate(vips):
        demand, dips = state.demand(vip), np.zeros(state.data_centre.n_racks, np.int64)
        dips[list(state.dips[vip])] = list(state.dips[vip].values())
        racks = np.flatnonzero((demand > 0) | (dips > 0))
        bps = demand[racks]
        needed = np.maximum(np.ceil(bps / max(state.dip_bps[vip], 1e-9) - ROUNDING), 1)
        rows.append((np.full(len(racks), place), racks, bps, dips[racks], needed.astype(np.int64)))
    if not rows:
        nobody = np.empty(0, np.int64)
        return _Pairs(nobody, nobody, np.empty(0), nobody, nobody)
    return _Pairs(*(np.concatenate(column) for column in zip(*rows, strict=True)))


class _Program:
    """The program of one level.

    Columns: y of each pair that may be local; with moves also x of each pair, arrivals of each
    pair, and whether a rack has DIPs, for VIPs of three failure domains or more.
    """

    def __init__(
        self,
        state: LocalMappings,
        vips: Sequence[int],
        pairs: _Pairs,
        limits: SolverLimits,
        has_moves: bool,
    ) -> None:
        self.state, self.vips, self.pairs, self.has_moves = state, vips, pairs, has_moves
        self.n_dips = state.n_dips[list(vips)] if vips else np.empty(0, np.int64)
        domains = np.array([state.least_racks(vip) for vip in vips], np.int64)
        self.most: IntArray = (self.n_dips - domains + 1)[pairs.vip]
        held = np.bincount(pairs.rack, pairs.now, state.data_centre.n_racks)
        self.room: IntArray = held.astype(np.int64) + state.free_slots
        reach = pairs.now
        if has_moves:
            reach = np.minimum(pairs.now + state.moves_left, self.room[pairs.rack])
            reach = np.minimum(reach, self.most)
        may = (pairs.bps > 0) & (pairs.needed <= reach)
        may &= pairs.needed <= state.free_entries[pairs.rack]
        self.local: IntArray = np.flatnonzero(may)
        if limits.most_pairs is not None and len(self.local) > limits.most_pairs:
            order = np.argsort(-pairs.bps[self.local], kind="stable")[: limits.most_pairs]
            self.local = np.sort(self.local[order])
        self.domains = domains
        self.counted: IntArray = np.flatnonzero(domains[pairs.vip] > FEWEST_DOMAINS)
        n_pairs = len(pairs.vip) if has_moves else 0
        sizes = (len(self.local), n_pairs, n_pairs, len(self.counted) if has_moves else 0)
        self.first = np.concatenate([[0], np.cumsum(sizes)])

    def solve(self, limits: SolverLimits) -> OptimizeResult:
        """Maximise the local bytes. x need not be whole here: given y, it is a flow."""
        cost = np.zeros(self.first[-1])
        cost[: self.first[1]] = -self.pairs.bps[self.local] / 1e9
        whole = np.zeros(self.first[-1])
        whole[: self.first[1]] = whole[self.first[3] :] = 1
        return self._milp(cost, whole, limits, None)

    def dips(self, is_local: npt.NDArray[np.bool_], limits: SolverLimits) -> IntArray | None:
        """Return DIPs of each pair, whole numbers, of which the fewest moved; None in no time."""
        if not self.has_moves:
            return self.pairs.now
        cost, whole = np.zeros(self.first[-1]), np.zeros(self.first[-1])
        cost[self.first[2] : self.first[3]] = 1
        whole[self.first[1] : self.first[2]] = whole[self.first[3] :] = 1
        found = self._milp(cost, whole, limits, is_local)
        if found.x is None:
            return None
        made: IntArray = np.rint(found.x[self.first[1] : self.first[2]]).astype(np.int64)
        return made

    def apply(self, is_local: npt.NDArray[np.bool_], dips: IntArray) -> None:
        """Put DIPs and local mappings into the state."""
        pairs, mapped = self.pairs, np.zeros(len(self.pairs.vip), np.int64)
        mapped[self.local[is_local]] = pairs.needed[self.local[is_local]]
        edges = np.searchsorted(pairs.vip, np.arange(len(self.vips) + 1)).tolist()
        for vip, first, last in zip(self.vips, edges[:-1], edges[1:], strict=True):
            racks = pairs.rack[first:last].tolist()
            self.state.set_dips(
                vip,
                {r: n for r, n in zip(racks, dips[first:last].tolist(), strict=True) if n},
                {r: n for r, n in zip(racks, mapped[first:last].tolist(), strict=True) if n},
            )

    def _milp(
        self,
        cost: FloatArray,
        whole: FloatArray,
        limits: SolverLimits,
        fixed: npt.NDArray[np.bool_] | None,
    ) -> OptimizeResult:
        from scipy.optimize import Bounds, LinearConstraint, milp

        low, high = np.zeros(len(cost)), np.ones(len(cost))
        if fixed is not None:
            low[: self.first[1]] = high[: self.first[1]] = fixed
        high[self.first[1] : self.first[3]] = np.tile(self.most, 2 if self.has_moves else 0)
        made = [*self._tables(), *(self._dip_rows() if self.has_moves else ())]
        rows = [LinearConstraint(*one) for one in made]
        options = {"time_limit": limits.time_limit_s, "mip_rel_gap": limits.gap}
        return milp(
            cost, integrality=whole, bounds=Bounds(low, high), constraints=rows, options=options
        )

    def _tables(self) -> Iterator[_Rows]:
        """Constraints 1 and 5b."""
        pairs, own = self.pairs, self.local
        needed, at = pairs.needed[own].astype(float), np.arange(len(own))
        racks = len(self.room)
        yield self._rows(racks, (pairs.rack[own], at, needed), -np.inf, self.state.free_entries)
        capacity = self.state.dip_bps[list(self.vips)]
        spare = capacity * self.n_dips * (1 + ROUNDING) - self.state.services.bps[list(self.vips)]
        beyond = needed * capacity[pairs.vip[own]] - pairs.bps[own]
        # In Gbit/s: solvers see differences of 1e-6 only.
        rows = (pairs.vip[own], at, beyond / 1e9)
        yield self._rows(len(self.vips), rows, -np.inf, spare / 1e9)

    def _dip_rows(self) -> Iterator[_Rows]:
        """Constraints 2, 3, 4, 5a and 6."""
        pairs, n = self.pairs, len(self.pairs.vip)
        at, ones = np.arange(n), np.ones(n)
        y, x, arrived, has = self.first[:4]
        yield self._rows(len(self.room), (pairs.rack, x + at, ones), -np.inf, self.room)
        yield self._rows(len(self.vips), (pairs.vip, x + at, ones), self.n_dips, self.n_dips)
        own, place = self.local, np.arange(len(self.local))
        both = (
            np.concatenate([place, place]),
            np.concatenate([x + own, y + place]),
            np.concatenate([np.ones(len(own)), -pairs.needed[own].astype(float)]),
        )
        yield self._rows(len(own), both, 0.0, np.inf)
        moved = (
            np.concatenate([at, at]),
            np.concatenate([x + at, arrived + at]),
            np.concatenate([ones, -ones]),
        )
        yield self._rows(n, moved, -np.inf, pairs.now)
        total = (np.zeros(n, np.int64), arrived + at, ones)
        yield self._rows(1, total, -np.inf, self.state.moves_left)
        if not len(self.counted):
            return
        own, place = self.counted, np.arange(len(self.counted))
        least = np.where(self.domains > FEWEST_DOMAINS, self.domains, 0)
        spread = (pairs.vip[own], has + place, np.ones(len(own)))
        yield self._rows(len(self.vips), spread, least, np.inf)
        there = (
            np.concatenate([place, place]),
            np.concatenate([x + own, has + place]),
            np.concatenate([np.ones(len(own)), -np.ones(len(own))]),
        )
        yield self._rows(len(own), there, 0.0, np.inf)

    def _rows(
        self,
        count: int,
        entries: tuple[IntArray, IntArray, FloatArray],
        low: FloatArray | IntArray | float,
        high: FloatArray | IntArray | float,
    ) -> _Rows:
        from scipy.sparse import csr_array

        row, column, value = entries
        return csr_array((value, (row, column)), (count, int(self.first[-1]))), low, high
