"""What a link does to packets on their way: propagation delay, jitter and random loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypedDict

from dcgym.config import check_keys, check_range
from dcgym.errors import ConfigError
from dcgym.units import parse_duration

__all__ = ["WIRE_FIELDS", "DelayFields", "DelaySpec", "parse_delay"]

DelaySpec: TypeAlias = "str | int | float | Mapping[str, object]"
"""A one-way delay; or a mapping of time, jitter and loss."""

_KEYS = ("time", "jitter", "loss")


class DelayFields(TypedDict):
    """The fields of a `Link` that say what happens to packets on the wire."""

    delay_ns: int
    jitter_ns: int
    loss_probability: float


WIRE_FIELDS: Mapping[str, float] = {"jitter_ns": 0, "loss_probability": 0.0}
"""What a link that only delays has in the other fields."""


def parse_delay(delay: object, field: str) -> DelayFields:
    """Read how long packets are under way on a link, and how many arrive.

    ``{"time": "20ms"}`` is the same as ``"20ms"``. `jitter` is the most that is added to a packet's
    delay, evenly distributed from 0; no packet overtakes another of its link. `loss` is the
    probability that a packet does not arrive. (netem's ``delay 20ms 2ms`` is 18 to 22 ms: a `time`
    of 18 ms and a `jitter` of 4 ms, without its reordering.)

    Args:
        delay: What the user wrote.
        field: Name of the field in errors.

    Raises:
        ConfigError: A key or a value is not allowed.
    """
    if not isinstance(delay, Mapping):
        return {"delay_ns": parse_duration(delay, field), "jitter_ns": 0, "loss_probability": 0.0}
    check_keys(delay, _KEYS, field)
    if "time" not in delay:
        raise ConfigError(field, dict(delay), "a mapping with the field 'time'")
    loss = check_range(f"{field}.loss", delay.get("loss", 0.0), 0.0, 1.0)
    return {
        "delay_ns": parse_duration(delay["time"], f"{field}.time"),
        "jitter_ns": parse_duration(delay.get("jitter", 0), f"{field}.jitter"),
        "loss_probability": float(loss),
    }
