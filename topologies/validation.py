"""What names, sizes and marks of a topology may be; every refusal is one ConfigError."""

from __future__ import annotations

import re

from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.units import read_number

__all__ = [
    "DEFAULT_MTU_BYTES",
    "ETHERNET_BYTES",
    "MAX_HOSTS",
    "MAX_INTERFACE_NAME",
    "MAX_MTU_BYTES",
    "MAX_QUEUE_BYTES",
    "check_mark",
    "check_mtu",
    "check_node_name",
    "check_queue",
    "is_node_name",
]

ETHERNET_BYTES = 14
"""Header of a frame, which queues and token buckets count beside the IP packet."""

MAX_QUEUE_BYTES = 2**32 - 1
"""tc's limit of a queue is an unsigned 32-bit number."""

DEFAULT_MTU_BYTES = 1500
"""Ethernet's."""

MAX_MTU_BYTES = 9000
"""Of jumbo frames; the traffic generator's datagrams are no larger either."""

MAX_HOSTS = 0xFDFFFF
"""Addresses from 10.0.0.1 on; those from 10.254.0.1 on are the switches' and the gateway's."""

MAX_INTERFACE_NAME = 15
"""IFNAMSIZ less the terminating zero."""

_MIN_MTU_BYTES = 68  # RFC 791
# "-eth" and at least one digit follow the name of a node in the names of its interfaces.
_MAX_NODE_NAME = MAX_INTERFACE_NAME - len("-eth0")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def is_node_name(name: object) -> bool:
    """Return whether a node may have this name.

    Args:
        name: The name.
    """
    return isinstance(name, str) and len(name) <= _MAX_NODE_NAME and bool(_NAME.fullmatch(name))


def check_node_name(name: object) -> str:
    """Return the name if a node may have it.

    Args:
        name: The name.

    Raises:
        ConfigError: It may not.
    """
    if not isinstance(name, str) or not is_node_name(name):
        allowed = f"a letter, then letters, digits or _.- , at most {_MAX_NODE_NAME} characters"
        raise ConfigError("node name", name, allowed)
    return name


def check_mark(field: str, mark_bytes: int, queue_bytes: int) -> None:
    """Check that a marking threshold lies inside its queue.

    Args:
        field: Name of the field in the error.
        mark_bytes: The threshold.
        queue_bytes: Limit of the queue.
    """
    number = read_number(mark_bytes)
    if number is None or number != int(number) or not 1 <= number < queue_bytes:
        allowed = f"a whole number from 1 to below the queue of {queue_bytes} bytes, or none"
        raise ConfigError(field, mark_bytes, allowed)


def check_mtu(field: str, mtu_bytes: int) -> None:
    """Check the size of the largest packet of a link.

    Args:
        field: Name of the field in the error.
        mtu_bytes: Size of the IP packet.
    """
    check_int(field, mtu_bytes, _MIN_MTU_BYTES, MAX_MTU_BYTES)


def check_queue(field: str, queue_bytes: int, mtu_bytes: int) -> None:
    """Check that a queue holds a full frame: with less, a token bucket would pass none at all.

    Args:
        field: Name of the field in the error.
        queue_bytes: Limit of the queue.
        mtu_bytes: Largest IP packet of its link.
    """
    number, least = read_number(queue_bytes), mtu_bytes + ETHERNET_BYTES
    if number is None or number != int(number) or not least <= number <= MAX_QUEUE_BYTES:
        allowed = f"a whole number from {least}, a frame of MTU {mtu_bytes}, to {MAX_QUEUE_BYTES}"
        raise ConfigError(field, queue_bytes, allowed)
