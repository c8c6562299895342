"""iperf3 3.9 or later: its command lines, and its ``--json`` reports."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dcgym.traffic.generators.tool import (
    UDP_BLOCK_BYTES,
    Commands,
    Order,
    Result,
    Seen,
    Tool,
    amount,
    blocks,
)

__all__ = ["IPERF3"]

TCP_BLOCK_BYTES = 131_072
LEAST_UDP_BLOCK_BYTES = 16
CONNECT_MS = 2_000
STARTUP_BYTES, PARAMETERS_BYTES = 8_600, 900
# What a report calls the signal that we end a run with, on the side that got it and on the other.
_INTERRUPTED = ("interrupt - ", "the client has terminated", "the server has terminated")


def commands(order: Order) -> Commands:
    """Return the command lines.

    A TCP flow runs in reverse mode, the receiver as the client: an iperf3 sender that is a client
    ends the test when the last byte is in its socket, long before it has arrived.

    Args:
        order: The run.
    """
    server_ip = order.dst_ip if order.is_udp else order.src_ip
    port = ["-p", str(order.port), "--json"]
    client = ["iperf3", "-c", server_ip, *port, "--connect-timeout", str(CONNECT_MS)]
    client += ["-u"] if order.is_udp else ["-R"]
    n_blocks, block_bytes = _blocks(order)
    client += ["-n", str(n_blocks * block_bytes)] if n_blocks else ["-t", "0"]
    client += ["-l", str(block_bytes)]
    if order.rate_bps is not None:
        client += ["-b", str(order.rate_bps)]
    if order.congestion_control and not order.is_udp:
        client += ["-C", order.congestion_control]
    listener = ["iperf3", "-s", "-1", "-B", server_ip, *port]
    return Commands(listener, client, receiver_connects=not order.is_udp)


def _blocks(order: Order) -> tuple[int, int]:
    """Return number and size of the blocks, since iperf3 sends whole ones alone; 0 for no end."""
    most_bytes = UDP_BLOCK_BYTES if order.is_udp else TCP_BLOCK_BYTES
    if order.size_bytes is None:
        return 0, most_bytes
    n_blocks, block_bytes = blocks(order.size_bytes, most_bytes)
    return n_blocks, max(block_bytes, LEAST_UDP_BLOCK_BYTES)


def result(order: Order, seen: Seen) -> Result | None:
    """Read the reports of both sides; None where they hold no such report.

    Args:
        order: The run.
        seen: What both sides printed.
    """
    sent, received = _json(seen.sender), _json(seen.receiver)
    total, arrived = _part(sent, "end", "sum_sent"), _part(received, "end", "sum_received")
    streams = _part(sent, "end").get("streams")
    tcp = _part(streams[0], "sender") if isinstance(streams, list) and streams else {}
    # -1 where the kernel did not say.
    retransmits = 0 if total.get("retransmits") == -1 else total.get("retransmits", 0)
    try:
        return Result(
            received_bytes=int(amount(arrived["bytes"])),
            sent_bytes=int(amount(total.get("bytes", 0))),
            seconds=amount(arrived["seconds"]),
            retransmits=int(amount(retransmits)),
            srtt_ns=int(amount(tcp.get("mean_rtt", 0))) * 1000,
            min_rtt_ns=int(amount(tcp.get("min_rtt", 0))) * 1000,
        )
    except (KeyError, TypeError, ValueError):
        return None


def failure(order: Order, seen: Seen) -> str:
    """Return the error that either report names; with ``--json`` the exit code may be 0.

    Args:
        order: The run.
        seen: What both sides printed.
    """
    for text in (seen.receiver, seen.sender):
        report = _json(text)
        error = report.get("error") if isinstance(report, Mapping) else None
        if error is not None and not str(error).startswith(_INTERRUPTED):
            return str(error)
    return ""


def _json(text: str) -> object:
    try:
        report: object = json.loads(text)
        return report
    except (ValueError, RecursionError):
        return None


def _part(report: object, *names: str) -> Mapping[str, object]:
    """Return a mapping inside of mappings; an empty one where there is none."""
    for name in names:
        report = report.get(name) if isinstance(report, Mapping) else None
    return report if isinstance(report, Mapping) else {}


def start_bytes(order: Order) -> int:
    """Return what the receiver reads first: as the client its libraries and a random block too.

    Args:
        order: The run.
    """
    return PARAMETERS_BYTES if order.is_udp else STARTUP_BYTES + _blocks(order)[1]


IPERF3 = Tool(
    "iperf3",
    "apt-get install iperf3",
    commands,
    result,
    start_bytes,
    listener_ends=True,
    keeps_duration=False,  # in whole seconds alone
    keeps_size=True,
    chooses_congestion_control=True,
    failure=failure,
)
"""iperf3 as a generator."""
