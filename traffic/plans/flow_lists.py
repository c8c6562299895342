"""Flow lists of other simulators: connection matrices of csg-htsim, and flows of HPCC's ns-3.

In both, number n is host ``h{n+1}``. What a plan cannot hold is refused.

Sources: sim/datacenter/connection_matrix.cpp and sim/trigger.cpp of Broadcom/csg-htsim;
traffic_gen/README.md and simulation/scratch/third.cc of
alibaba-edu/High-Precision-Congestion-Control.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dcgym.errors import ConfigError, suggest
from dcgym.files import read_text, wrong_file
from dcgym.reading import FLOWS
from dcgym.traffic.plans.options import make_records
from dcgym.traffic.plans.records import LARGEST, LAST_PORT, NONE, Records
from dcgym.units import parse_duration, read_number

__all__ = ["FLOW_LIST_SUFFIXES", "FlowList", "read_flow_list"]

FLOW_LIST_SUFFIXES = (".cm", ".txt")

_FIELD = "traffic file"
_HTSIM = "a connection matrix of csg-htsim, which begins with Nodes and Connections"
_HPCC = "flows of HPCC, which begin with their number"
_DEMANDS = "demands of SNDlib are {name: demand-matrices, file: ...}"

_HEADS = ("Nodes", "Connections", "Triggers", "Failures")
_KEYS = ("id", "start", "size", "trigger", "recv_done_trigger")
_NOT_HELD = {
    "send_done_trigger": "recv_done_trigger: a flow of a plan waits for the last byte at the "
    "receiver of another, not for its acknowledgement",
    "prio": "no prio: flows of a plan have no priority",
    "failure": "no failures: a plan holds flows alone",
}
_PS_PER_NS = 1000

Lines = Sequence[tuple[int, list[str]]]


class FlowList(NamedTuple):
    """The flows of a file.

    Attributes:
        hosts: Names that the records index.
        records: The flows, each after the one that it waits for.
        where: Names the line of a flow.
    """

    hosts: list[str]
    records: Records
    where: Callable[[int], str]


def read_flow_list(path: Path) -> FlowList | None:
    """Read a file of csg-htsim (.cm, or .txt) or HPCC (.txt), told apart by their first line.

    Args:
        path: The file.

    Returns:
        Its flows, or None if a .txt file begins like neither.

    Raises:
        ConfigError: The file cannot be read, or a line holds what a plan cannot.
    """
    expected = _HTSIM if path.suffix.lower() == ".cm" else f"{_HTSIM}, or {_HPCC}"
    text = read_text(path, _FIELD, expected, FLOWS)
    numbered = enumerate(text.split("\n"), 1)
    lines = [(n, line.split()) for n, line in numbered if line.strip()]
    lines = [(n, tokens) for n, tokens in lines if not tokens[0].startswith("#")]
    first = lines[0][1] if lines else [""]
    if first[0] in _HEADS:
        return _Htsim(path, lines).read()
    if path.suffix.lower() == ".cm":
        raise wrong_file(_FIELD, path, _HTSIM)
    if len(first) == 1 and read_number(first[0]) is not None:
        return _read_hpcc(path, lines)
    if first[0] == "?SNDlib":
        raise wrong_file(_FIELD, path, f"{_HPCC} ({_DEMANDS})")
    return None


class _Htsim:
    """A connection matrix: a line for each count, connection, trigger and failure."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self._path, self._lines = path, lines
        self._counts: dict[str, tuple[str, int]] = {}
        self._connections: list[tuple[int, dict[str, int]]] = []
        self._triggers: dict[int, str] = {}

    def read(self) -> FlowList:
        """Return the flows."""
        for number, tokens in self._lines:
            where = self._where(number)
            if tokens[0] in _HEADS:
                self._add_count(tokens, where)
            elif tokens[0] == "trigger":
                self._add_trigger(tokens, where)
            elif "->" in tokens[0]:
                self._connections.append((number, self._connection(tokens, where)))
            else:
                allowed = _NOT_HELD.get(tokens[0], "SRC->DST, trigger, or a count")
                raise ConfigError(where, " ".join(tokens), allowed)
        self._check_counts()
        self._check_ids()
        return self._flows()

    def _where(self, number: int) -> str:
        return f"{self._path.name}, line {number}"

    def _add_count(self, tokens: list[str], where: str) -> None:
        name = tokens[0]
        if len(tokens) != 2 or name in self._counts:
            raise ConfigError(where, " ".join(tokens), f"{name} and a number, once")
        self._counts[name] = (where, _whole(tokens[1], f"{where}, {name}"))

    def _add_trigger(self, tokens: list[str], where: str) -> None:
        # A barrier waits for several flows, and a multishot starts one target at a time.
        if len(tokens) != 4 or tokens[1] != "id" or tokens[3] != "oneshot":
            allowed = "trigger id N oneshot: a flow of a plan waits for one other flow"
            raise ConfigError(where, " ".join(tokens), allowed)
        identifier = _whole(tokens[2], f"{where}, id", 1)
        if identifier in self._triggers:
            raise ConfigError(f"{where}, id", identifier, "an id that no other trigger has")
        self._triggers[identifier] = where

    def _connection(self, tokens: list[str], where: str) -> dict[str, int]:
        src, _, dst = tokens[0].partition("->")
        found = {"src": _whole(src, f"{where}, src"), "dst": _whole(dst, f"{where}, dst")}
        for key, cell in zip(tokens[1::2], [*tokens[2::2], ""], strict=False):
            if key not in _KEYS:
                raise ConfigError(where, key, _NOT_HELD.get(key, _KEYS), suggest(key, _KEYS))
            if key in found:
                raise ConfigError(where, key, "each key once")
            field, low = f"{where}, {key}", 0 if key == "size" else 1
            found[key] = _picoseconds(cell, field) if key == "start" else _whole(cell, field, low)
        if ("start" in found) == ("trigger" in found):
            raise ConfigError(where, " ".join(tokens), "either start or trigger")
        if "size" not in found:
            raise ConfigError(where, " ".join(tokens), "a size in bytes, 0 for no limit")
        return found

    def _check_counts(self) -> None:
        counted = {"Connections": len(self._connections), "Triggers": len(self._triggers)}
        for name in ("Nodes", "Connections"):
            if name not in self._counts:
                raise ConfigError(self._path.name, f"no {name}", f"a line {name} N")
        for name, count in {**counted, "Failures": 0}.items():
            where, stated = self._counts.get(name, (self._path.name, 0))
            if stated != count:
                allowed = _NOT_HELD["failure"] if name == "Failures" else f"{count}, as many follow"
                raise ConfigError(f"{where}, {name}", stated, allowed)
        nodes = self._counts["Nodes"][1]
        for number, found in self._connections:
            for end in ("src", "dst"):
                if found[end] >= nodes:
                    allowed = f"0 to {nodes - 1}, as there are {nodes} Nodes"
                    raise ConfigError(f"{self._where(number)}, {end}", found[end], allowed)

    def _check_ids(self) -> None:
        known: dict[int, int] = {}
        for number, found in self._connections:
            identifier = found.get("id", -number)
            if identifier in known:
                allowed = f"an id that {self._where(known[identifier])} lacks"
                raise ConfigError(f"{self._where(number)}, id", identifier, allowed)
            known[identifier] = number

    def _flows(self) -> FlowList:
        rows = [found for _, found in self._connections]
        ends = np.array([(row["src"], row["dst"]) for row in rows], np.int64).reshape(-1, 2)
        sizes = [row["size"] or NONE for row in rows]
        hosts, records = _records(ends, [row.get("start", 0) for row in rows], sizes)
        after = self._waits(rows)
        order = np.argsort(self._depths(after), kind="stable")
        place = np.argsort(order)
        records["after"] = [NONE if row == NONE else place[row] for row in after]
        lines = [self._connections[row][0] for row in order.tolist()]
        return FlowList(hosts, records[order], lambda row: self._where(lines[row]))

    def _waits(self, rows: list[dict[str, int]]) -> list[int]:
        """Return the row that each row waits for, or `NONE`."""
        fired: dict[int, int] = {}
        for row, found in enumerate(rows):
            trigger = found.get("recv_done_trigger")
            if trigger in fired:
                allowed = "a trigger that no other connection fires: a flow waits for one other"
                field = f"{self._where(self._connections[row][0])}, recv_done_trigger"
                raise ConfigError(field, trigger, allowed)
            if trigger is not None:
                fired[trigger] = row
        awaited = {found["trigger"] for found in rows if "trigger" in found}
        for trigger, where in self._triggers.items():
            if trigger not in fired or trigger not in awaited:
                allowed = "a trigger that one connection fires and others wait for"
                raise ConfigError(where, trigger, allowed)
        for row, found in enumerate(rows):
            for key in ("trigger", "recv_done_trigger"):
                if key in found and found[key] not in self._triggers:
                    field = f"{self._where(self._connections[row][0])}, {key}"
                    raise ConfigError(field, found[key], "the id of a trigger of the file")
        return [fired[found["trigger"]] if "trigger" in found else NONE for found in rows]

    def _depths(self, after: list[int]) -> list[int]:
        """Return how many flows each waits for, one after the other."""
        unknown, on_the_way = -1, -2
        depths = [unknown] * len(after)
        for row in range(len(after)):
            chain = []
            while row != NONE and depths[row] == unknown:
                depths[row] = on_the_way
                chain.append(row)
                row = after[row]
            if row != NONE and depths[row] == on_the_way:
                where = self._where(self._connections[row][0])
                raise ConfigError(f"{where}, trigger", "itself", "a flow that does not wait for it")
            depth = -1 if row == NONE else depths[row]
            for waiting in reversed(chain):
                depth += 1
                depths[waiting] = depth
        return depths


def _read_hpcc(path: Path, lines: Lines) -> FlowList:
    (number, (cell,)), rows = lines[0], lines[1:]

    def where(row: int) -> str:
        return f"{path.name}, line {rows[row][0]}"

    if _whole(cell, f"{path.name}, line {number}") != len(rows):
        allowed = f"{len(rows)}, the number of lines that follow"
        raise ConfigError(f"{path.name}, line {number}", cell, allowed)
    columns: list[list[int]] = []
    starts_ns = []
    names = ("src", "dst", "priority group", "dport", "size")
    for row, (_, tokens) in enumerate(rows):
        if len(tokens) != 6:
            allowed = "src dst priority_group dport size_bytes start_s"
            raise ConfigError(where(row), " ".join(tokens), allowed)
        cells = zip(names, tokens, strict=False)
        columns.append([_whole(cell, f"{where(row)}, {name}") for name, cell in cells])
        starts_ns.append(_time_ns(tokens[5], f"{where(row)}, start", "s"))
    values = np.array(columns, np.int64).reshape(-1, 5)
    others = np.flatnonzero(values[:, 2] != values[:1, 2])
    if others.size:
        allowed = f"{values[0, 2]}, as in line {rows[0][0]}: flows of a plan have no priority"
        row = int(others[0])
        raise ConfigError(f"{where(row)}, priority group", int(values[row, 2]), allowed)
    hosts, records = _records(values[:, :2], starts_ns, values[:, 4].tolist())
    # One port for all, as HPCC's generator writes, says nothing of a flow.
    if np.unique(values[:, 3]).size > 1:
        wrong = np.flatnonzero((values[:, 3] < 1) | (values[:, 3] > LAST_PORT))
        if wrong.size:
            row = int(wrong[0])
            raise ConfigError(f"{where(row)}, dport", int(values[row, 3]), f"1 to {LAST_PORT}")
        records["port"] = values[:, 3]
    return FlowList(hosts, records, where)


def _records(
    ends: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    starts_ns: Sequence[int],
    sizes: Sequence[int],
) -> tuple[list[str], Records]:
    numbers, pairs = np.unique(ends, return_inverse=True)
    records = make_records(pairs.reshape(-1, 2))
    records["start_ns"], records["size_bytes"] = starts_ns, sizes
    return [f"h{number + 1}" for number in numbers.tolist()], records


def _picoseconds(cell: str, field: str) -> int:
    """Return a time in ps to the nearest nanosecond."""
    return (_time_ns(cell, field, "ns") + _PS_PER_NS // 2) // _PS_PER_NS


def _time_ns(cell: str, field: str, unit: str) -> int:
    number = read_number(cell)
    if number is None or number < 0:
        raise ConfigError(field, cell, "a number of 0 or more")
    return parse_duration(f"{cell}{unit}", field)


def _whole(cell: str, field: str, low: int = 0) -> int:
    # Nearly always digits, which Python reads fast.
    number = (
        int(cell) if cell.isdigit() and cell.isascii() and len(cell) < 19 else read_number(cell)
    )
    if number is None or number != int(number) or not low <= number <= LARGEST:
        raise ConfigError(field, cell, f"a whole number from {low}")
    return int(number)
