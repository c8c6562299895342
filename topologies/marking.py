"""When a switch port marks: a step, or the ramp of RED."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, TypedDict, TypeVar

from dcgym.config import check_in, check_int, check_keys, check_range
from dcgym.errors import ConfigError
from dcgym.topologies.base import Graph
from dcgym.topologies.elements import Link
from dcgym.topologies.validation import check_mark
from dcgym.units import parse_size

AnyGraph = TypeVar("AnyGraph", bound=Graph)

__all__ = [
    "MARK_KINDS",
    "MarkFields",
    "MarkSpec",
    "parse_mark",
    "red_weight",
    "with_marking",
]

MARK_KINDS = ("step", "red")

MarkSpec: TypeAlias = "str | int | Mapping[str, object] | None"
"""A threshold; a mapping of kind, min, max, probability, and weight or burst; None: no marks."""

_STEP_KEYS = ("kind", "min", "probability")
_RED_KEYS = (*_STEP_KEYS, "max", "weight", "burst")
_PACKET_BYTES = 1500


class MarkFields(TypedDict):
    """The fields of a `Link` that say how it marks."""

    mark_bytes: int | None
    mark_max_bytes: int | None
    mark_probability: float
    mark_weight: float


def parse_mark(mark: object, field: str, queue_bytes: int | None = None) -> MarkFields:
    """Read how a link marks.

    ``{"kind": "step", "min": "30KB"}`` is the same as ``"30KB"``. RED (Floyd and Jacobson 1993)
    needs `min`, `max` and `probability`, and may have a `weight` (1, the default, takes each queue
    as it is) or the `burst` from which tc-red(8) derives one.

    Args:
        mark: What the user wrote.
        field: Name of the field in errors.
        queue_bytes: Limit of the queue, if it is known here.

    Returns:
        The fields of a `Link` whose names begin with ``mark_``.

    Raises:
        ConfigError: A key or a value is not allowed.
    """
    if mark is None:
        return _step(None)
    if not isinstance(mark, Mapping):
        return _step(_threshold(mark, field, queue_bytes))
    check_keys(mark, _RED_KEYS, field)
    kind = check_in(f"{field}.kind", mark.get("kind", "step"), MARK_KINDS)
    check_keys(mark, _RED_KEYS if kind == "red" else _STEP_KEYS, f"{field} of kind {kind}")
    needed = ("min", "max", "probability") if kind == "red" else ("min",)
    for key in needed:
        if key not in mark:
            raise ConfigError(field, dict(mark), f"a mapping with the field {key!r}")
    least = _threshold(mark["min"], f"{field}.min", queue_bytes)
    fields = _step(least)
    fields["mark_probability"] = mark.get("probability", 1.0)
    if kind == "red":
        fields["mark_max_bytes"] = parse_size(mark["max"], f"{field}.max")
        fields["mark_weight"] = _weight(mark, field, least)
    return fields


def red_weight(burst: object, min_bytes: int) -> float:
    """Return RED's averaging weight for a tolerated burst, as tc-red(8) chooses it.

    The largest 1/2, 1/4, ... for which a burst into an empty queue leaves the average below `min`
    (the inequality of Floyd and Jacobson 1993, section 6).

    Args:
        burst: Packets of 1500 bytes; more than `min_bytes` hold.
        min_bytes: Where marking begins.
    """
    packets = check_int("burst", burst, 1, 10**6)
    room = packets + 1 - min_bytes / _PACKET_BYTES
    if room < 1:
        allowed = f"at least the {min_bytes} bytes of min, in packets of {_PACKET_BYTES} bytes"
        raise ConfigError("burst", burst, allowed)
    for exponent in range(1, 17):
        weight = 2.0**-exponent
        if room <= (1 - (1 - weight) ** packets) / weight:
            return weight
    raise ConfigError("burst", burst, "a burst that a weight of 2^-16 or more tolerates")


def with_marking(topology: AnyGraph, mark: MarkSpec) -> AnyGraph:
    """Return the topology with every link marking in this way.

    Args:
        topology: The network.
        mark: How its links mark (see `parse_mark`).

    Raises:
        ConfigError: A value is not allowed, or does not fit the queue of a link.
    """
    links = [_remark(link, mark) for link in topology.links]
    return replace(topology, links=tuple(links))


def _step(mark_bytes: int | None) -> MarkFields:
    return {
        "mark_bytes": mark_bytes,
        "mark_max_bytes": None,
        "mark_probability": 1.0,
        "mark_weight": 1.0,
    }


def _remark(link: Link, mark: MarkSpec) -> Link:
    return replace(link, **parse_mark(mark, "marking", link.queue_bytes))


def _threshold(value: object, field: str, queue_bytes: int | None) -> int:
    threshold_bytes = parse_size(value, field)
    if queue_bytes is not None:
        check_mark(field, threshold_bytes, queue_bytes)
    return threshold_bytes


def _weight(mark: Mapping[str, object], field: str, min_bytes: int) -> float:
    if "burst" not in mark:
        return float(check_range(f"{field}.weight", mark.get("weight", 1.0), 2.0**-16, 1.0))
    if "weight" in mark:
        raise ConfigError(f"{field} field", "burst", "weight or burst, not both")
    return red_weight(mark["burst"], min_bytes)
