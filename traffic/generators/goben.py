"""goben 1.1: its command lines and its logs."""

from __future__ import annotations

import math
import re

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

__all__ = ["GOBEN"]

FOREVER_S = 1_000_000
TCP_BLOCK_BYTES = 131_072
PACED_BLOCK_BYTES = 1_448
"""Writes of a TCP flow with a rate: each must be small against what the rate allows a report."""

WHOLE_BYTES = 64 << 20
"""Largest size that is sent as one write, which goben holds in memory."""

ONCE_MBPS = 1e-6
"""A limit that lets nothing follow the first write."""

TCP_REPORT_S = 1.0
UDP_REPORT_S = 0.1
LEAST_UDP_REPORTS = 10
LEAST_REPORT_S = 0.001
# Its connection begins with the options of the test, of 234 bytes or more.
OPTIONS_BYTES = 230


def commands(order: Order) -> Commands:
    """Return the command lines.

    goben ends flows by time and not by size. A size without a rate is therefore one write, which
    a limit keeps alone, as long as a process can hold it. `Tool.keeps_size` says that the run is
    interrupted once the size has arrived.

    Args:
        order: The run.
    """
    address = f"{order.dst_ip}:{order.port}"
    common = ["--tls=false", *(["--udp"] if order.is_udp else [])]
    client = ["goben", "--hosts", address, "--passiveServer", *common]
    client += ["--totalDuration", f"{max(round(_duration_s(order) * 1000), 1)}ms"]
    client += _udp_options(order) if order.is_udp else _tcp_options(order)
    return Commands(["goben", "--listeners", address, *common], client, receiver_connects=False)


def _duration_s(order: Order) -> float:
    duration_s = FOREVER_S if order.duration_ns is None else order.duration_ns / 1e9
    if order.is_udp and order.size_bytes is not None and order.rate_bps is not None:
        # How much of it has arrived is known by intervals alone.
        return min(duration_s, order.size_bytes * 8 / order.rate_bps)
    return duration_s


def _tcp_options(order: Order) -> list[str]:
    size_bytes, block_bytes = order.size_bytes, TCP_BLOCK_BYTES
    if order.rate_bps is not None:
        block_bytes = PACED_BLOCK_BYTES
        if size_bytes is not None:
            block_bytes = blocks(size_bytes, PACED_BLOCK_BYTES)[1]
        mbps = paced_mbps(order.rate_bps, block_bytes, min(TCP_REPORT_S, _duration_s(order)))
        return [*_report(TCP_REPORT_S), "--tcpWriteSize", str(block_bytes), *_limit(mbps)]
    if size_bytes is not None and size_bytes <= WHOLE_BYTES:
        # The limit begins anew with each report.
        return [*_report(FOREVER_S), "--tcpWriteSize", str(size_bytes), *_limit(ONCE_MBPS)]
    return [*_report(TCP_REPORT_S), "--tcpWriteSize", str(block_bytes)]


def _udp_options(order: Order) -> list[str]:
    assert order.rate_bps is not None
    report_s = _udp_report_s(order)
    mbps = paced_mbps(order.rate_bps, UDP_BLOCK_BYTES, report_s)
    return [*_report(report_s), "--udpWriteSize", str(UDP_BLOCK_BYTES), *_limit(mbps)]


def _udp_report_s(order: Order) -> float:
    report_s = min(UDP_REPORT_S, _duration_s(order) / LEAST_UDP_REPORTS)
    return max(round(report_s, 3), LEAST_REPORT_S)


def _report(interval_s: float) -> list[str]:
    return ["--reportInterval", f"{round(interval_s * 1000)}ms"]


def _limit(mbps: float) -> list[str]:
    return ["--maxSpeed", f"{mbps:.6f}"]


def paced_mbps(rate_bps: int, block_bytes: int, report_s: float) -> float:
    """Return the limit at which goben sends at a rate.

    It writes while its mean since the last report is below the limit. Each report lets one write
    through, and follows the first write after its interval: where n writes fit the limit until
    then, n + 1 are sent.

    Args:
        rate_bps: The rate.
        block_bytes: Size of a write.
        report_s: Interval of its reports.
    """
    block_bits = 8 * block_bytes
    most = math.floor(report_s * rate_bps / block_bits) + 1
    for n_blocks in range(most, 0, -1):
        limit_bps = rate_bps * n_blocks / (n_blocks + 1)
        if math.floor(report_s * limit_bps / block_bits) + 1 >= n_blocks:
            return limit_bps / 1e6
    return rate_bps / 1e6


_AVERAGE = re.compile(r"average\s+serverReader rate: ([0-9.]+) Mbps")
_UDP_REPORT = re.compile(r"report\s+handleUDP rate: ([0-9.]+) Mbps")
_FAILED_CALL = re.compile(r"workLoop: \S+ client(?:Reader|Writer): (.*) n=-?\d+$", re.MULTILINE)
_FAILED_START = re.compile(
    r"(?:handleConnectionClient: (?:receiving ack|(?:TCP|UDP) options failure|UDP options write)"
    r"|open: dial [^:]*): (.*)$",
    re.MULTILINE,
)
_SERVER_ENDED = re.compile(
    r"handleConnection: (?:\S+ timer|received shutdown signal)$", re.MULTILINE
)
_READER_ENDED = re.compile(r"workLoop: \S+ serverReader: ")
_CLOSED_BY_ITSELF = "use of closed network connection"


def result(order: Order, seen: Seen) -> Result | None:
    """Return what the receiver has read; its log tells over which time.

    Over UDP, whose reads are not counted, the intervals of the receiver's log tell both.

    Args:
        order: The run.
        seen: What both sides printed and did.
    """
    received_bytes = arrived_bytes(order, seen)
    if not order.is_udp:
        return Result(received_bytes, received_bytes, _reader_s(seen, received_bytes))
    sent_bytes = max(seen.written_bytes - OPTIONS_BYTES, 0)
    intervals = _udp_intervals(order, seen)
    if intervals:
        # What came after the last report came as fast as before it, if anything did.
        rest_s = seen.seconds - sum(seconds for _, seconds in intervals)
        last_bytes, last_s = intervals[-1]
        if 0 < rest_s < 2 * last_s:
            received_bytes += round(last_bytes * rest_s / last_s)
    return Result(min(received_bytes, sent_bytes), sent_bytes, seen.seconds)


def _reader_s(seen: Seen, received_bytes: int) -> float:
    average = _AVERAGE.search(seen.receiver)
    if average is None or not received_bytes:
        return seen.seconds
    try:
        rate_bps = amount(float(average[1]) * 1e6)
    except ValueError:
        return seen.seconds
    seconds = received_bytes * 8 / rate_bps if rate_bps else seen.seconds
    # A reader may wait for its next byte long after the last one.
    return min(seconds, seen.seconds) if seen.seconds else seconds


def arrived_bytes(order: Order, seen: Seen) -> int:
    """Return how many bytes of the flow have arrived, as far as can be known yet.

    Args:
        order: The run.
        seen: What both sides printed and did.
    """
    if order.is_udp:
        return sum(n_bytes for n_bytes, _ in _udp_intervals(order, seen))
    is_one_write = order.rate_bps is None and (order.size_bytes or math.inf) <= WHOLE_BYTES
    # The runtime's own reads are counted too, some 8 bytes a wake-up.
    return min(seen.read_bytes, order.size_bytes or 0) if is_one_write else seen.read_bytes


def _udp_intervals(order: Order, seen: Seen) -> list[tuple[int, float]]:
    """Return bytes and seconds of each report, which comes with the first datagram that is due."""
    report_s, intervals = _udp_report_s(order), []
    for text in _UDP_REPORT.findall(seen.receiver):
        try:
            rate_bps = amount(float(text) * 1e6)
        except ValueError:
            return []
        n_bytes = UDP_BLOCK_BYTES * (math.floor(rate_bps * report_s / (8 * UDP_BLOCK_BYTES)) + 1)
        intervals.append((n_bytes, n_bytes * 8 / rate_bps if rate_bps else report_s))
    return intervals


def failure(order: Order, seen: Seen) -> str:
    """Return what the client logs of a broken connection, after which it waits and exits with 0.

    A receiver that has closed after its own timer is no failure, though the sender, whose timer
    ends a moment later, may find the connection reset.

    Args:
        order: The run.
        seen: What both sides printed.
    """
    found = _FAILED_START.search(seen.sender)
    if found is not None:
        return found[1]
    errors = [text for text in _FAILED_CALL.findall(seen.sender) if _CLOSED_BY_ITSELF not in text]
    if not errors or _receiver_ended_first(seen.receiver):
        return ""
    return str(errors[0])


def _receiver_ended_first(log: str) -> bool:
    ended, reader = _SERVER_ENDED.search(log), _READER_ENDED.search(log)
    return ended is not None and (reader is None or ended.start() < reader.start())


def has_reported(order: Order, seen: Seen) -> bool:
    """Tell whether the receiver has logged the end of the flow; over UDP it notices none.

    Args:
        order: The run.
        seen: What both sides printed.
    """
    return order.is_udp or _AVERAGE.search(seen.receiver) is not None


def start_bytes(order: Order) -> int:
    """Return what the receiver reads first: the options of the test.

    Args:
        order: The run.
    """
    return OPTIONS_BYTES


GOBEN = Tool(
    "goben",
    "install goben and put it on the PATH",
    commands,
    result,
    start_bytes,
    listener_ends=False,
    keeps_duration=True,
    keeps_size=False,
    chooses_congestion_control=False,
    failure=failure,
    arrived_bytes=arrived_bytes,
    has_reported=has_reported,
)
"""goben as a generator."""
