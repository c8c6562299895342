"""The columns of a plan: one record a flow, as the native generator reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.native.tables import names_of

__all__ = [
    "FLOW_DTYPE",
    "LARGEST",
    "LAST_PORT",
    "NONE",
    "TRANSPORTS",
    "Records",
    "check_records",
    "is_endless",
]

TRANSPORTS = names_of("transports")
"""Transports by their number in a record."""

NONE = -1
"""What a record holds where a `Flow` holds None."""

LARGEST = 2**60  # the generator refuses more; 36 years in nanoseconds
LAST_PORT = 65535

FLOW_DTYPE = np.dtype(
    [
        ("src", "<u4"),
        ("dst", "<u4"),
        ("transport", "<u4"),
        ("port", "<u4"),
        ("start_ns", "<i8"),
        ("size_bytes", "<i8"),
        ("duration_ns", "<i8"),
        ("rate_bps", "<i8"),
        ("repetitions", "<i8"),
        ("gap_ns", "<i8"),
        ("after", "<i8"),
        ("group", "<i8"),
    ]
)
"""80 bytes a flow, little endian, no padding. ``src`` and ``dst`` index the plan's hosts, ``port``
0 leaves the choice open, and -1 in ``size_bytes``, ``duration_ns``, ``rate_bps`` and ``after``
means none. A flow's identifier is its row."""

Records = npt.NDArray[np.void]
Where = Callable[[int], str]
BoolArray = npt.NDArray[np.bool_]

_LIMITS = ("size_bytes", "duration_ns", "rate_bps")


def is_endless(records: Records) -> BoolArray:
    """Return for each flow whether it never ends by itself.

    Args:
        records: The flows.
    """
    is_unlimited = (records["size_bytes"] == NONE) & (records["duration_ns"] == NONE)
    endless: BoolArray = (records["repetitions"] == 0) | is_unlimited
    return endless


def check_records(records: Records, hosts: Sequence[str], where: Where) -> None:
    """Check every column of a plan.

    Args:
        records: The flows, of `FLOW_DTYPE`.
        hosts: Names that ``src`` and ``dst`` index.
        where: Names a row in the error message.

    Raises:
        ConfigError: Some row holds a value that is not allowed; the first such row is named.
    """
    _check_numbers(records, len(hosts), where)
    _check_relations(records, hosts, where)
    _check_order(records, where)
    _check_ports(records, where)


def _check_numbers(records: Records, n_hosts: int, where: Where) -> None:
    for name in ("src", "dst"):
        _check(records[name] >= n_hosts, records, name, f"below {n_hosts}", where)
    _check(records["transport"] >= len(TRANSPORTS), records, "transport", "0 or 1", where)
    _check(records["port"] > LAST_PORT, records, "port", f"0 to {LAST_PORT}", where)
    for name in ("start_ns", "repetitions", "gap_ns", "group"):
        wrong = (records[name] < 0) | (records[name] > LARGEST)
        _check(wrong, records, name, f"a whole number from 0 to {LARGEST}", where)
    for name in _LIMITS:
        wrong = ((records[name] < 1) & (records[name] != NONE)) | (records[name] > LARGEST)
        _check(wrong, records, name, f"a whole number from 1 to {LARGEST}", where)


def _check_relations(records: Records, hosts: Sequence[str], where: Where) -> None:
    loops = np.flatnonzero(records["src"] == records["dst"])
    if loops.size:
        name = hosts[int(records["dst"][loops[0]])]
        raise ConfigError(f"{where(int(loops[0]))}, dst", name, "a host other than the source")
    has_no_rate = (records["transport"] == 1) & (records["rate_bps"] == NONE)
    _check(has_no_rate, records, "rate_bps", "a positive rate, which UDP needs", where)
    is_unlimited = (records["size_bytes"] == NONE) & (records["duration_ns"] == NONE)
    wrong = (records["repetitions"] != 1) & is_unlimited
    _check(wrong, records, "repetitions", "1 for a flow without size and duration", where)


def _check_order(records: Records, where: Where) -> None:
    after = records["after"]
    wrong = (after < NONE) | (after >= np.arange(len(records)))
    _check(wrong, records, "after", "the number of an earlier flow", where)
    waiting = after != NONE
    if waiting.any():
        wrong = waiting.copy()
        wrong[waiting] = is_endless(records)[after[waiting]]
        _check(wrong, records, "after", "the number of a flow that ends", where)


def _check_ports(records: Records, where: Where) -> None:
    """Refuse two flows that certainly use one explicit port between two hosts at one time."""
    rows = np.flatnonzero((records["port"] != 0) & (records["after"] == NONE))
    keys = ("start_ns", "port", "transport", "dst", "src")
    rows = rows[np.lexsort([records[name][rows] for name in keys])]
    first, second = records[rows[:-1]], records[rows[1:]]
    is_same = np.ones(len(first), bool)
    for name in keys[1:]:
        is_same &= first[name] == second[name]
    overlaps = is_same & (second["start_ns"] < _certain_end_ns(first))
    if overlaps.any():
        pair = int(np.flatnonzero(overlaps)[0])
        row, other = int(rows[pair + 1]), int(rows[pair])
        allowed = f"a port that {where(other)} does not use at the same time"
        raise ConfigError(f"{where(row)}, port", int(records["port"][row]), allowed)


def _certain_end_ns(records: Records) -> npt.NDArray[np.int64]:
    """Return a time before which each flow cannot have ended: a size may be sent in no time."""
    lasts_ns = np.where(records["size_bytes"] == NONE, records["duration_ns"], 1)
    ends_ns = records["start_ns"] + np.maximum(lasts_ns, 1)
    return np.where(is_endless(records), 2 * LARGEST, ends_ns)


def _check(wrong: BoolArray, records: Records, name: str, allowed: str, where: Where) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ConfigError(f"{where(row)}, {name}", int(records[name][row]), allowed)
