"""Iroko's flow matrices: 11 columns, a flow a line, after Hedera's load generator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int
from dcgym.errors import ConfigError
from dcgym.traffic.plans.options import MOST_FLOWS, make_records
from dcgym.traffic.plans.records import LAST_PORT, NONE, Records
from dcgym.traffic.plans.tables import Table
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.samplers import Exponential, whole_numbers
from dcgym.units import NS_PER_S, parse_duration

__all__ = ["IROKO_COLUMNS", "RANDOM_HORIZON_NS", "read_iroko"]

IROKO_COLUMNS = (
    "src",
    "dst",
    "port",
    "seed",
    "start_time",
    "stop_time",
    "flow_size",
    "flow_size_pattern",
    "reps",
    "flow_gap",
    "random_gap",
)

PATTERNS = ("exact", "random")
"""Values of ``flow_size_pattern`` and ``random_gap``; random means exponential with that mean."""

RANDOM_HORIZON_NS = 60 * NS_PER_S
"""How long an endless row with random gaps or sizes is planned ahead; Iroko's files run 60 s."""

# Iroko writes the largest 32-bit number for a flow without a size.
_UNLIMITED_BYTES = 2**31 - 1

IntArray = npt.NDArray[np.int64]


def read_iroko(
    table: Table, seed: int, fastest_bps: int | None
) -> tuple[list[str], Records, list[int]]:
    """Read a flow matrix.

    A row sends from ``start_time`` for ``stop_time - start_time`` or until ``flow_size`` is
    delivered, ``reps`` times (-1: for ever) with ``flow_gap`` in between. Where the gap or the
    size is random, every repetition becomes a flow of its own that waits for the one before; its
    numbers come from the row's ``seed`` together with the plan's.

    Args:
        table: The file.
        seed: Seed of the plan.
        fastest_bps: Highest rate of any host, which bounds how many repetitions an endless
            random row can need; None for no bound.

    Returns:
        Host names, the flows that index them, and the row that each flow came from.

    Raises:
        ConfigError: A cell is not allowed; its line and column are named.
    """
    ends = table.texts("src") + table.texts("dst")
    hosts = list(dict.fromkeys(ends))
    index = {name: number for number, name in enumerate(hosts)}
    columns = {name: table.integers(name) for name in ("port", "seed", "flow_size", "reps")}
    parts, origins, first = [], [], 0
    for row in range(len(table)):
        values = {name: int(column[row]) for name, column in columns.items()}
        pair = np.array([[index[ends[row]], index[ends[row + len(table)]]]])
        records = _row(table, row, values, pair, seed, fastest_bps)
        records["after"][1:] = np.arange(first, first + len(records) - 1)
        parts.append(records)
        origins += [row] * len(records)
        first += len(records)
    nothing = make_records(np.empty((0, 2), np.int64))
    return hosts, np.concatenate([nothing, *parts]), origins


def _row(
    table: Table,
    row: int,
    values: dict[str, int],
    pair: IntArray,
    seed: int,
    fastest_bps: int | None,
) -> Records:
    start_ns, duration_ns, gap_ns = _times(table, row)
    is_random = {
        name: check_in(f"{table.where(row)}, {name}", table.columns[name][row], PATTERNS)
        == "random"
        for name in ("flow_size_pattern", "random_gap")
    }
    _check_row(table, row, values)
    size_bytes = NONE if values["flow_size"] >= _UNLIMITED_BYTES else values["flow_size"]
    if not any(is_random.values()):
        records = make_records(pair)
        records["repetitions"] = 0 if values["reps"] == -1 else values["reps"]
        records["gap_ns"], records["size_bytes"] = gap_ns, size_bytes
        records["start_ns"] = start_ns
    else:
        draws = Draws(seed, values["seed"])
        has_random_size = is_random["flow_size_pattern"] and size_bytes != NONE
        runs = _Runs(gap_ns, size_bytes, is_random["random_gap"], has_random_size, draws)
        gaps_ns, sizes = runs.draw(_count(table, row, values["reps"], runs, fastest_bps))
        records = make_records(np.broadcast_to(pair, (len(sizes), 2)))
        records["start_ns"], records["size_bytes"] = gaps_ns, sizes
        records["start_ns"][:1] = start_ns
    records["duration_ns"], records["port"] = duration_ns, values["port"]
    return records


class _Runs:
    """The repetitions of a row with random gaps or sizes."""

    def __init__(
        self, gap_ns: int, size_bytes: int, random_gap: bool, random_size: bool, draws: Draws
    ) -> None:
        self.gap_ns, self.size_bytes = gap_ns, size_bytes
        self._random_gap, self._random_size = random_gap, random_size
        self._draws = draws

    def draw(self, count: int) -> tuple[IntArray, IntArray]:
        """Return gap and size of the first runs; asking for more repeats what came before."""
        gaps_ns = np.full(count, self.gap_ns)
        sizes = np.full(count, self.size_bytes)
        if self._random_gap and self.gap_ns:
            drawn = Exponential(self.gap_ns).quantile(self._draws.stream(0).uniform(count))
            gaps_ns = np.floor(drawn + 0.5).astype(np.int64)
        if self._random_size:
            drawn = Exponential(self.size_bytes).quantile(self._draws.stream(1).uniform(count))
            sizes = whole_numbers(drawn)
        return gaps_ns, sizes


def _count(table: Table, row: int, repetitions: int, runs: _Runs, fastest_bps: int | None) -> int:
    """Return how many runs to plan: those asked for, or all that fit into the horizon."""
    if repetitions != -1:
        return repetitions
    ns_per_byte = 8 * NS_PER_S / fastest_bps if fastest_bps else 0.0
    cycle_ns = runs.gap_ns + max(runs.size_bytes, 0) * ns_per_byte
    if cycle_ns * MOST_FLOWS < RANDOM_HORIZON_NS:
        where = f"{table.where(row)}, flow_gap"
        raise ConfigError(
            where, table.columns["flow_gap"][row], "a longer gap, or a number of reps"
        )
    count = 64 + int(1.1 * RANDOM_HORIZON_NS / cycle_ns)
    while True:
        gaps_ns, sizes = runs.draw(count)
        ends_ns = np.cumsum(gaps_ns + np.maximum(sizes, 0) * ns_per_byte)
        if ends_ns[-1] >= RANDOM_HORIZON_NS:
            return int(np.searchsorted(ends_ns, RANDOM_HORIZON_NS)) + 1
        count *= 2


def _times(table: Table, row: int) -> tuple[int, int, int]:
    cells = {name: table.columns[name][row] for name in ("start_time", "stop_time", "flow_gap")}
    start_ns, stop_ns, gap_ns = (
        parse_duration(cell, f"{table.where(row)}, {name}") for name, cell in cells.items()
    )
    if stop_ns <= start_ns:
        where = f"{table.where(row)}, stop_time"
        raise ConfigError(where, cells["stop_time"], "a time after start_time")
    return start_ns, stop_ns - start_ns, gap_ns


def _check_row(table: Table, row: int, values: dict[str, int]) -> None:
    ranges = {"port": (1, LAST_PORT), "seed": (0, None), "flow_size": (1, None)}
    for name, (low, high) in ranges.items():
        check_int(f"{table.where(row)}, {name}", values[name], low, high)
    if values["reps"] != -1 and not 1 <= values["reps"] <= MOST_FLOWS:
        allowed = f"-1 (for ever), or 1 to {MOST_FLOWS}"
        raise ConfigError(f"{table.where(row)}, reps", values["reps"], allowed)
