"""Recorded arrivals: times and sizes from a file, played faster if asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dcgym.config import check_positive
from dcgym.errors import ConfigError, suggest
from dcgym.traffic.plans.library import read_pairs
from dcgym.traffic.plans.options import SENDING, Spec, make_records, read_time, set_sending
from dcgym.traffic.plans.patterns import Pairs, Pattern
from dcgym.traffic.plans.records import LARGEST, Records
from dcgym.traffic.plans.tables import Table, read_table
from dcgym.traffic.sizes.draws import Draws
from dcgym.traffic.sizes.samplers import whole_numbers

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["COLUMNS", "OPTIONS", "recorded"]

OPTIONS = (*SENDING, "file", "time_compression", "scale", "pairs", "start")
"""What a spec of recorded arrivals may hold besides its name."""

COLUMNS = ("time_s", "time_ns", "size_bytes", "src", "dst")
"""Columns of the file: one of the times, the size, and both ends or none."""


def recorded(spec: Spec, topology: Topology, draws: Draws) -> Records:
    """Compile the arrivals of a file.

    Args:
        spec: ``pairs`` that arrivals without ends are given to, all equally likely ("all-to-all"
            if not given), ``file`` (CSV or Parquet with `COLUMNS`), ``time_compression`` (2 plays
            the file in half its time), ``scale`` (a factor on the sizes); further any of
            `OPTIONS`. The first arrival starts the plan.
        topology: The network.
        draws: Random numbers.

    Raises:
        ConfigError: The file cannot be read, or a row holds what is not allowed.
    """
    pattern, file = read_pairs(spec, "all-to-all"), spec.get("file")
    if not isinstance(file, str | Path):
        raise ConfigError("traffic.file", file, "the path of a .csv or .parquet file")
    table = read_table(Path(file), "traffic.file")
    table.check_columns(COLUMNS, ("size_bytes",))
    times_ns = table.times_ns()
    compression = check_positive("traffic.time_compression", spec.get("time_compression", 1.0))
    scale = check_positive("traffic.scale", spec.get("scale", 1.0))
    records = make_records(_pairs(table, pattern, topology, draws))
    elapsed_ns = (times_ns - times_ns.min(initial=LARGEST)).astype(np.float64) / compression
    records["start_ns"] = read_time(spec, "start") + np.floor(elapsed_ns + 0.5).astype(np.int64)
    records["size_bytes"] = whole_numbers(_sizes(table) * scale)
    set_sending(records, spec, topology)
    return records[np.argsort(records["start_ns"], kind="stable")]


def _sizes(table: Table) -> npt.NDArray[np.float64]:
    sizes = table.integers("size_bytes")
    wrong = np.flatnonzero(sizes < 1)
    if wrong.size:
        row = int(wrong[0])
        raise ConfigError(f"{table.where(row)}, size_bytes", int(sizes[row]), "1 or more")
    return sizes.astype(np.float64)


def _pairs(table: Table, pattern: Pattern, topology: Topology, draws: Draws) -> Pairs:
    named = [name for name in ("src", "dst") if name in table.columns]
    if not named:
        pairs = pattern(topology, draws.stream(0))
        return pairs[draws.stream(3).integers(len(table), len(pairs))]
    if len(named) == 1:
        raise ConfigError(f"{table.name}, header", list(table.columns), "both src and dst, or none")
    ends = [_hosts(table, name, topology) for name in named]
    return np.array(ends, np.int64).reshape(2, len(table)).T


def _hosts(table: Table, name: str, topology: Topology) -> list[int]:
    index = {host.name: host.index for host in topology.hosts}
    index |= {topology.ip(host.name): host.index for host in topology.hosts}
    numbers = []
    for row, cell in enumerate(table.texts(name)):
        if cell not in index:
            allowed = f"a host of {topology.name}, by name or address"
            raise ConfigError(f"{table.where(row)}, {name}", cell, allowed, suggest(cell, index))
        numbers.append(index[cell])
    return numbers
