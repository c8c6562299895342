"""What graphs of other tools say about their links, as fields of a link."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from dcgym.errors import ConfigError, suggest
from dcgym.topologies.content import QUANTITY_KEYS
from dcgym.units import parse_duration, parse_rate, parse_size, read_number

__all__ = ["Attributes", "link_fields"]

Attributes = Mapping[str, str] | None
"""Meaning of attributes of links: a field of ours, perhaps with a unit, or "ignore"."""

_IGNORE = "ignore"
_EXAMPLE = "such as {bw: rate Mbit}, {latency: delay ms}, or {bw: ignore}"
# Field of a link, and what reads one unit of it.
_UNITS: dict[str, tuple[str, Callable[[object, str], int]]] = {
    "rate": ("rate_bps", parse_rate),
    "queue": ("queue_bytes", parse_size),
    "mark": ("mark_bytes", parse_size),
    "delay": ("delay_ns", parse_duration),
    "mtu": ("mtu_bytes", parse_size),
}
# Words in the names of attributes that speak of what a link does to packets.
_TELLING = {
    *("rate", "bandwidth", "bw", "capacity", "speed", "throughput", "bps", "kbps", "mbps", "gbps"),
    *("delay", "latency", "rtt", "jitter", "queue", "buffer", "loss", "error", "mtu"),
    *("mark", "ecn", "red"),
}
# Words of what routes follow elsewhere: ours count hops, so these must be the same on all links.
_WEIGHING = {"weight", "cost", "metric", "distance", "length"}
# The Topology Zoo's LinkSpeedRaw, in bit/s, is LinkSpeed in its LinkSpeedUnits.
_ZOO_RATE, _ZOO_PARTS = "LinkSpeedRaw", ("LinkSpeed", "LinkSpeedUnits")


def link_fields(
    links: Sequence[Mapping[str, object]], attributes: Attributes
) -> list[dict[str, object]]:
    """Return links with fields of ours only; nothing that concerns packets is left out unsaid.

    Args:
        links: Each with "a", "b", fields of a link, and attributes of other tools.
        attributes: What these attributes mean, where they are not known.

    Raises:
        ConfigError: An attribute may concern packets and is not known, a value cannot be read, two
            attributes are one field, or none has an attribute that is asked for.
    """
    meanings = _read(attributes, {key for link in links for key in link} - {"a", "b"})
    weights = {key for link in links for key in link if _words(key) & _WEIGHING}
    uneven = {key for key in weights if len({str(link.get(key)) for link in links}) > 1}
    return [_fields(link, meanings, uneven) for link in links]


def _read(attributes: Attributes, known: set[str]) -> dict[str, tuple[str, str]]:
    """Return the field and the unit that each attribute stands for."""
    if attributes is not None and not isinstance(attributes, Mapping):
        raise ConfigError("attributes", attributes, f"a mapping, {_EXAMPLE}")
    meanings = {}
    for key, text in (attributes or {}).items():
        if key not in known:
            raise ConfigError(
                "attributes", key, "an attribute that a link has", suggest(key, known)
            )
        field, _, unit = text.strip().partition(" ") if isinstance(text, str) else ("", "", "")
        if field not in ((*_UNITS,) if unit else (_IGNORE, *QUANTITY_KEYS)):
            allowed = f"a field of a link, perhaps with a unit, {_EXAMPLE}"
            raise ConfigError(f"attributes.{key}", text, allowed)
        meanings[key] = field, unit.strip()
    return meanings


def _fields(
    link: Mapping[str, object], meanings: Mapping[str, tuple[str, str]], uneven: set[str]
) -> dict[str, object]:
    name = f"{link.get('a')}-{link.get('b')}"
    fields: dict[str, object] = {}
    for key, value in link.items():
        if key in meanings:
            new = _translated(key, value, *meanings[key], name)
        elif key in ("a", "b", *QUANTITY_KEYS):
            new = {key: value}
        elif key == _ZOO_RATE:
            new = {"rate_bps": value}
        elif key in _ZOO_PARTS and _ZOO_RATE in link:
            new = {}
        elif value is not None and (_words(key) & _TELLING or key in uneven):
            allowed = f"what {key} of the links ({value!r} of {name}) means, {_EXAMPLE}"
            raise ConfigError("attributes", f"no {key}", allowed)
        else:
            new = {}
        for field in new.keys() & fields.keys():
            raise ConfigError(f"link {name}", f"{field} twice", "each field of a link once")
        fields |= new
    return fields


def _translated(key: str, value: object, field: str, unit: str, name: str) -> dict[str, object]:
    if field == _IGNORE or value is None:
        return {}
    if not unit:
        return {field: value}
    full, parse = _UNITS[field]
    factor, word = re.fullmatch(r"([\d.]*)(.*)", unit).groups()  # type: ignore[union-attr]
    times, one = read_number(factor or 1), parse(f"1{word}", f"attributes.{key}")
    number = read_number(value)
    if times is None or number is None or number < 0:
        raise ConfigError(f"{key} of link {name}", value, f"a number, of {unit} each")
    return {full: round(number * times * one)}


def _words(name: object) -> set[str]:
    """Return the words of a name such as LinkSpeedRaw or link_speed, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", str(name))}
