"""Nodes, links and demands of a network file, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from dcgym.errors import ConfigError, suggest
from dcgym.sndlib.forms import Row, read_form
from dcgym.units import read_number

__all__ = [
    "UNITS_BPS",
    "SndlibDemand",
    "SndlibLink",
    "SndlibModule",
    "SndlibNetwork",
    "SndlibNode",
    "read_sndlib",
    "to_bps",
]

UNITS_BPS = {
    "BITPERSEC": 1,
    "KBITPERSEC": 10**3,
    "MBITPERSEC": 10**6,
    "GBITPERSEC": 10**9,
    "TBITPERSEC": 10**12,
}
"""Units of capacities and demands, in bit/s, as ``unit`` of a file's META names them."""

DEFAULT_UNIT = "MBITPERSEC"
"""The unit of files that state none, as those of networks do. SNDlib's format knows no unit; its
measured demands are in Mbit/s."""


@dataclass(frozen=True)
class SndlibNode:
    """A node.

    Attributes:
        name: Its id.
        x: Longitude in degrees, or a place in a picture; None where the file has none.
        y: Latitude in degrees, likewise.
    """

    name: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class SndlibModule:
    """Capacity that may be installed on a link.

    Attributes:
        capacity: In units of the file.
        cost: Of one such module.
    """

    capacity: float
    cost: float


@dataclass(frozen=True)
class SndlibLink:
    """A link. Whether it is directed is in another file, that of the planning model.

    Attributes:
        name: Its id.
        source: Id of the first node.
        target: Id of the second node.
        capacity: What is installed before the planning begins, in units of the file; 0 for nothing.
        cost: Of that capacity.
        routing_cost: Of each unit that is routed over the link.
        setup_cost: Of using the link at all.
        modules: What may be installed besides.
        where: File and line.
    """

    name: str
    source: str
    target: str
    capacity: float = 0.0
    cost: float = 0.0
    routing_cost: float = 0.0
    setup_cost: float = 0.0
    modules: tuple[SndlibModule, ...] = ()
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class SndlibDemand:
    """A demand.

    Attributes:
        name: Its id.
        source: Id of the node that sends.
        target: Id of the node that receives.
        value: Traffic in multiples of ``routing_unit``.
        routing_unit: Capacity that a value of 1 takes, in units of the file.
        max_path_length: Most links of a path; None for no limit.
        paths: Admissible paths, each its id and the ids of its links; all paths if empty.
        where: File and line.
    """

    name: str
    source: str
    target: str
    value: float
    routing_unit: int = 1
    max_path_length: int | None = None
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class SndlibNetwork:
    """A network file.

    Attributes:
        name: Name of the file without its suffix.
        nodes: The nodes, in the order of the file; likewise the links and demands.
        links: The links.
        demands: The demands.
        granularity: How long the demands hold, such as "5min"; None where the file does not say,
            as for the next three.
        time: When they begin, such as "20040301-0000".
        unit: Unit of capacities and demands, such as "MBITPERSEC".
        origin: Where the data comes from.
    """

    name: str
    nodes: tuple[SndlibNode, ...]
    links: tuple[SndlibLink, ...]
    demands: tuple[SndlibDemand, ...]
    granularity: str | None = None
    time: str | None = None
    unit: str | None = None
    origin: str | None = None

    @property
    def unit_bps(self) -> int:
        """The unit of capacities and demands in bit/s, `DEFAULT_UNIT` where the file has none.

        Raises:
            ConfigError: It is not in `UNITS_BPS`.
        """
        unit = (self.unit or DEFAULT_UNIT).upper()
        if unit not in UNITS_BPS:
            raise ConfigError(f"{self.name}, unit", self.unit, UNITS_BPS, suggest(unit, UNITS_BPS))
        return UNITS_BPS[unit]


def read_sndlib(path: str | Path, field: str = "file") -> SndlibNetwork:
    """Read a network file, native or XML.

    Args:
        path: The file.
        field: Names the file in error messages.

    Raises:
        ConfigError: It is no network of SNDlib, or a line of it is unknown or wrong.
    """
    path = Path(path)
    form = read_form(path, field)
    nodes = _by_id(form.nodes, "node")
    links = _by_id(form.links, "link")
    _by_id(form.demands, "demand")
    for row in (*form.links, *form.demands):
        for end in ("source", "target"):
            _check_known(row, end, row.cells.get(end), nodes)
    return SndlibNetwork(
        path.stem,
        tuple(_node(row) for row in form.nodes),
        tuple(_link(row) for row in form.links),
        tuple(_demand(row, links) for row in form.demands),
        **form.meta,
    )


def to_bps(value: float, unit_bps: int, scale: float = 1.0) -> int:
    """Return a capacity or demand in whole bit/s.

    Args:
        value: The number in the file.
        unit_bps: Its unit in bit/s.
        scale: A factor.
    """
    # By the digits that people see, as `dcgym.units` reads numbers.
    exact = Fraction(str(value)) * unit_bps * Fraction(str(scale))
    return math.floor(exact + Fraction(1, 2))


def _by_id(rows: Sequence[Row], kind: str) -> dict[str, Row]:
    known: dict[str, Row] = {}
    for row in rows:
        name = row.cells["id"]
        if name in known:
            raise ConfigError(f"{row.where}, {kind}", name, f"an id that {known[name].where} lacks")
        known[name] = row
    return known


def _check_known(row: Row, field: str, name: str | None, known: dict[str, Row]) -> None:
    if name not in known:
        kind = "link" if field == "path" else "node"
        hint = suggest(name, known) if name else None
        raise ConfigError(f"{row.where}, {field}", name, f"a {kind} of the file", hint)


def _node(row: Row) -> SndlibNode:
    x, y = (_number(row, name, None) for name in ("x", "y"))
    return SndlibNode(row.cells["id"], x, y)


def _link(row: Row) -> SndlibLink:
    modules = []
    for texts in row.modules:
        one = Row(row.where, dict(zip(("module capacity", "module cost"), texts, strict=True)))
        modules.append(SndlibModule(*(_positive(one, name) for name in one.cells)))
    return SndlibLink(
        row.cells["id"],
        row.cells["source"],
        row.cells["target"],
        _positive(row, "capacity", 0.0),
        _positive(row, "cost", 0.0),
        _positive(row, "routing_cost", 0.0),
        _positive(row, "setup_cost", 0.0),
        tuple(modules),
        row.where,
    )


def _demand(row: Row, links: dict[str, Row]) -> SndlibDemand:
    for _, path in row.paths:
        for link in path:
            _check_known(row, "path", link, links)
    if len({name for name, _ in row.paths}) < len(row.paths):
        names = [name for name, _ in row.paths]
        raise ConfigError(f"{row.where}, paths", names, "different ids")
    longest = _whole(row, "max_path_length") if "max_path_length" in row.cells else None
    return SndlibDemand(
        row.cells["id"],
        row.cells["source"],
        row.cells["target"],
        _positive(row, "value"),
        _whole(row, "routing_unit", 1),
        longest,
        tuple((name, tuple(path)) for name, path in row.paths),
        row.where,
    )


def _number(row: Row, name: str, absent: float | None) -> float | None:
    text = row.cells.get(name)
    if text is None:
        return absent
    number = read_number(text)
    if number is None:
        raise ConfigError(f"{row.where}, {name}", text, "a number")
    return float(number)


def _positive(row: Row, name: str, absent: float | None = None) -> float:
    number = _number(row, name, absent)
    if number is None or number < 0:
        raise ConfigError(f"{row.where}, {name}", row.cells.get(name), "a number of 0 or more")
    return number


def _whole(row: Row, name: str, absent: int | None = None) -> int:
    number = _number(row, name, absent)
    if number is None or number < 1 or number != int(number):
        raise ConfigError(f"{row.where}, {name}", row.cells.get(name), "a whole number above 0")
    return int(number)
