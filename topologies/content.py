"""A topology as plain data, such as YAML and JSON hold.

A person may write quantities with units, and state what most links share only once::

    name: triangle
    defaults: {rate: 100Mbit, queue: 400KB, mark: 30KB}
    nodes:
      - {name: h1, role: host}
      - {name: h2, role: host}
      - {name: s1, role: switch}
    links:
      - {a: h1, b: s1}
      - {a: h2, b: s1, rate: 10Mbit}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dcgym.config import check_keys, check_list
from dcgym.errors import ConfigError
from dcgym.topologies.delays import WIRE_FIELDS, parse_delay
from dcgym.topologies.elements import STEP_FIELDS
from dcgym.topologies.marking import parse_mark
from dcgym.topologies.validation import DEFAULT_MTU_BYTES, check_node_name
from dcgym.units import parse_rate, parse_size

__all__ = ["QUANTITY_KEYS", "Parts", "read_content", "read_quantities"]

Fields = Mapping[str, object]


class Parts(NamedTuple):
    """What a topology is built of, as a file states it: still to be checked.

    Attributes:
        name: Name of the topology.
        roles: Name and role of each node.
        links: Fields of each `Link`.
        layers: Height at which to draw a node, by its name.
    """

    name: object
    roles: list[tuple[str, object]]
    links: list[dict[str, object]]
    layers: dict[object, object]


# What a person writes, what the dataclass calls it, and how to read it into its fields.
_QUANTITIES: tuple[tuple[str, str, Callable[[object, str], Fields]], ...] = (
    ("rate", "rate_bps", lambda value, where: {"rate_bps": parse_rate(value, where)}),
    ("queue", "queue_bytes", lambda value, where: {"queue_bytes": parse_size(value, where)}),
    ("mark", "mark_bytes", lambda value, where: {**parse_mark(value, where)}),
    ("delay", "delay_ns", lambda value, where: {**parse_delay(value, where)}),
    ("mtu", "mtu_bytes", lambda value, where: {"mtu_bytes": parse_size(value, where)}),
)
_OPTIONAL: Fields = {"mark_bytes": None, "delay_ns": 0, "mtu_bytes": DEFAULT_MTU_BYTES}
QUANTITY_KEYS = (
    *(key for short, full, _ in _QUANTITIES for key in (short, full)),
    *STEP_FIELDS,
    *WIRE_FIELDS,
)
"""Fields of a link besides its ends."""


def read_content(content: Mapping[str, object]) -> Parts:
    """Read the parts of a topology from plain data.

    Args:
        content: Keys "name", "nodes" (each with name and role), "links" (each with a, b, and
            rate, queue, mark, delay, mtu as text with units, or rate_bps, queue_bytes, mark_bytes,
            delay_ns, mtu_bytes, jitter_ns, loss_probability), and "defaults" for the links.

    Raises:
        ConfigError: A field is unknown, missing or wrong.
    """
    check_keys(content, ("name", "nodes", "links", "defaults"), "topology")
    shared = _mapping(content.get("defaults", {}), QUANTITY_KEYS, "defaults of the links")
    defaults = read_quantities(shared, "defaults of the links")
    nodes = [
        _mapping(entry, ("name", "role", "layer"), f"node {number}")
        for number, entry in enumerate(_entries(content, "nodes"), 1)
    ]
    roles = [
        (
            check_node_name(_required(node, "name", f"node {number}")),
            _required(node, "role", f"node {number}"),
        )
        for number, node in enumerate(nodes, 1)
    ]
    layers = {node["name"]: node["layer"] for node in nodes if "layer" in node}
    links = [
        _link(entry, defaults, f"link {number}")
        for number, entry in enumerate(_entries(content, "links"), 1)
    ]
    return Parts(content.get("name", "custom"), roles, links, layers)


def _entries(content: Mapping[str, object], key: str) -> Sequence[object]:
    return check_list(f"topology {key}", content.get(key), f"a list of {key}")


def _mapping(entry: object, allowed: Sequence[str], where: str) -> Fields:
    if not isinstance(entry, Mapping):
        raise ConfigError(where, entry, "a mapping of field names to values")
    return check_keys(entry, allowed, where)


def _link(entry: object, defaults: Fields, where: str) -> dict[str, object]:
    own = _mapping(entry, ("a", "b", *QUANTITY_KEYS), where)
    a, b = _required(own, "a", where), _required(own, "b", where)
    values = {**_OPTIONAL, **defaults, **read_quantities(own, where)}
    for short, full, _ in _QUANTITIES:
        if full not in values:
            raise ConfigError(f"{where} ({a}-{b})", f"no {short}", f"{short} or {full}, required")
    return {"a": a, "b": b, **values}


def read_quantities(entry: Fields, where: str) -> dict[str, object]:
    """Return the fields of a `Link` besides its ends, as far as an entry has them.

    Args:
        entry: Fields of a link, under their short or full names, and others.
        where: Names the entry in errors.

    Raises:
        ConfigError: A quantity cannot be read, or is there twice.
    """
    found: dict[str, object] = {}
    for short, full, parse in _QUANTITIES:
        if short in entry and full in entry:
            raise ConfigError(f"{where} field", short, f"{short} or {full}, not both")
        if full in entry:
            found[full] = entry[full]
        elif short in entry:
            found |= parse(entry[short], f"{where} {short}")
    single = (*STEP_FIELDS, *WIRE_FIELDS)
    return found | {key: entry[key] for key in single if key in entry}


def _required(entry: Fields, key: str, where: str) -> object:
    if key not in entry:
        hint = "; the topology 'graph' fills in what is open" if key == "role" else ""
        raise ConfigError(where, dict(entry), f"a mapping with the field {key!r}{hint}")
    return entry[key]
