"""What the adapter knows of a traffic tool: how it is called, and how its runs are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dcgym.traffic.plans.records import LARGEST

__all__ = ["UDP_BLOCK_BYTES", "Commands", "Order", "Result", "Seen", "Tool", "amount", "blocks"]

UDP_BLOCK_BYTES = 1_448
"""Largest payload of a datagram: with the headers of IPv4 and UDP below an Ethernet MTU."""


@dataclass(frozen=True)
class Order:
    """One run of a flow. Sizes, durations and rates are None where there is no limit."""

    src_ip: str
    dst_ip: str
    port: int
    is_udp: bool = False
    size_bytes: int | None = None
    duration_ns: int | None = None
    rate_bps: int | None = None
    congestion_control: str = ""


@dataclass(frozen=True)
class Commands:
    """A pair of processes: one listens, and the other connects to it once it does."""

    listener: list[str]
    connector: list[str]
    receiver_connects: bool


@dataclass(frozen=True)
class Seen:
    """What can be seen of a run from outside, while it lasts and after its end.

    Attributes:
        sender: What the sender has printed.
        receiver: What the receiver has printed.
        read_bytes: What the receiver has read, less the tool's own messages.
        written_bytes: What the sender has written, less what it printed.
        seconds: Time since the receiver began to read.
    """

    sender: str = ""
    receiver: str = ""
    read_bytes: int = 0
    written_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Result:
    """What came of one run, in bytes of the application."""

    received_bytes: int
    sent_bytes: int
    seconds: float
    retransmits: int = 0
    srtt_ns: int = 0
    min_rtt_ns: int = 0


def _no_failure(order: Order, seen: Seen) -> str:
    return ""


def _is_always(order: Order, seen: Seen) -> bool:
    return True


def _bytes_read(order: Order, seen: Seen) -> int:
    return seen.read_bytes


@dataclass(frozen=True)
class Tool:
    """How a tool is called and read.

    Attributes:
        program: Name of the executable.
        hint: How to install it.
        commands: Command lines of a run.
        result: What a run that is over has come to; None where that cannot be known.
        start_bytes: What the receiver reads before the first byte of the flow.
        listener_ends: Whether the listener ends by itself after the one run.
        keeps_duration: Whether it ends a flow by its duration; else it is interrupted then.
        keeps_size: Whether it ends a flow by its size; else it is interrupted once the size has
            arrived.
        chooses_congestion_control: Whether it sets the algorithm of a flow itself.
        failure: What the tool says has gone wrong; empty where nothing has. Exit codes are looked
            at besides.
        arrived_bytes: How many bytes of the flow have arrived so far.
        has_reported: Whether the receiver has said all that it will, once the sender has ended;
            of listeners that do not end by themselves.
    """

    program: str
    hint: str
    commands: Callable[[Order], Commands]
    result: Callable[[Order, Seen], Result | None]
    start_bytes: Callable[[Order], int]
    listener_ends: bool
    keeps_duration: bool
    keeps_size: bool
    chooses_congestion_control: bool
    failure: Callable[[Order, Seen], str] = _no_failure
    arrived_bytes: Callable[[Order, Seen], int] = _bytes_read
    has_reported: Callable[[Order, Seen], bool] = _is_always


def blocks(size_bytes: int, most_bytes: int) -> tuple[int, int]:
    """Return the number and the size of equal blocks that exceed a size by the least.

    Args:
        size_bytes: The size.
        most_bytes: Largest block.
    """
    n_blocks = -(-size_bytes // most_bytes)
    return n_blocks, -(-size_bytes // n_blocks)


def amount(value: object) -> float:
    """Return a number that a flow's record can hold, also in thousands of its unit.

    Args:
        value: What a tool has printed.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative or too large.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value} is no number")
    if not 0 <= value < LARGEST / 1000:
        raise ValueError(f"{value} is no amount")
    return value
