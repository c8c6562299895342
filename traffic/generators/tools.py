"""Traffic tools that a generator's place may be given to: their command lines and their results."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dcgym.errors import ConfigError, FeatureNotSupported
from dcgym.registry import Registry
from dcgym.traffic.plans.records import LARGEST

__all__ = [
    "GENERATORS",
    "NATIVE",
    "Commands",
    "Native",
    "Order",
    "Result",
    "Tool",
    "find_tool",
    "require_generator",
]

TCP_BLOCK_BYTES = 131_072
UDP_BLOCK_BYTES = 1_448  # with the headers of IPv4 and UDP below an Ethernet MTU
CONNECT_MS = 2_000
FOREVER_S = 1_000_000


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
class Result:
    """What a tool measured of one run, in bytes of the application."""

    received_bytes: int
    sent_bytes: int
    seconds: float
    retransmits: int = 0
    srtt_ns: int = 0
    min_rtt_ns: int = 0


@dataclass(frozen=True)
class Tool:
    """How a tool is called and read.

    Attributes:
        program: Name of the executable.
        hint: How to install it.
        commands: Command lines of a run.
        result: What the outputs of the sender and of the receiver say, or None.
        start_bytes: What a receiver has read when the first byte of the flow arrives.
        listener_ends: Whether the listener ends by itself after the one run.
        keeps_duration: Whether it ends a flow by its duration; else it is interrupted then.
        chooses_congestion_control: Whether it sets the algorithm of a flow itself.
    """

    program: str
    hint: str
    commands: Callable[[Order], Commands]
    result: Callable[[Order, str, str], Result | None]
    start_bytes: int
    listener_ends: bool
    keeps_duration: bool
    chooses_congestion_control: bool


def blocks(size_bytes: int, most_bytes: int) -> tuple[int, int]:
    """Return the number and the size of equal blocks that exceed a size by the least.

    Args:
        size_bytes: The size.
        most_bytes: Largest block.
    """
    n_blocks = -(-size_bytes // most_bytes)
    return n_blocks, -(-size_bytes // n_blocks)


def iperf3_commands(order: Order) -> Commands:
    """Return the command lines of iperf3 3.9 or later.

    A TCP flow runs in reverse mode, the receiver as the client: an iperf3 sender that is a client
    ends the test when the last byte is in its socket, long before it has arrived.

    Args:
        order: The run.
    """
    server_ip = order.dst_ip if order.is_udp else order.src_ip
    port = ["-p", str(order.port), "--json"]
    client = ["iperf3", "-c", server_ip, *port, "--connect-timeout", str(CONNECT_MS)]
    client += ["-u"] if order.is_udp else ["-R"]
    most_bytes = UDP_BLOCK_BYTES if order.is_udp else TCP_BLOCK_BYTES
    if order.size_bytes is None:
        client += ["-t", "0", "-l", str(most_bytes)]
    else:
        # iperf3 sends whole blocks alone, and no UDP block below 16 bytes.
        n_blocks, block_bytes = blocks(order.size_bytes, most_bytes)
        block_bytes = max(block_bytes, 16)
        client += ["-n", str(n_blocks * block_bytes), "-l", str(block_bytes)]
    if order.rate_bps is not None:
        client += ["-b", str(order.rate_bps)]
    if order.congestion_control and not order.is_udp:
        client += ["-C", order.congestion_control]
    listener = ["iperf3", "-s", "-1", "-B", server_ip, *port]
    return Commands(listener, client, receiver_connects=not order.is_udp)


def iperf3_result(order: Order, sender: str, receiver: str) -> Result | None:
    """Read the ``--json`` outputs of both sides; None where they hold no such report.

    Args:
        order: The run.
        sender: Output of the sender.
        receiver: Output of the receiver.
    """
    sent, received = _json(sender), _json(receiver)
    total, arrived = _part(sent, "end", "sum_sent"), _part(received, "end", "sum_received")
    streams = _part(sent, "end").get("streams")
    tcp = _part(streams[0], "sender") if isinstance(streams, list) and streams else {}
    # -1 where the kernel did not say.
    retransmits = 0 if total.get("retransmits") == -1 else total.get("retransmits", 0)
    try:
        return Result(
            received_bytes=int(_amount(arrived["bytes"])),
            sent_bytes=int(_amount(total.get("bytes", 0))),
            seconds=_amount(arrived["seconds"]),
            retransmits=int(_amount(retransmits)),
            srtt_ns=int(_amount(tcp.get("mean_rtt", 0))) * 1000,
            min_rtt_ns=int(_amount(tcp.get("min_rtt", 0))) * 1000,
        )
    except (KeyError, TypeError, ValueError):
        return None


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


def _amount(value: object) -> float:
    """Return a number that a flow's record can hold, also in thousands of its unit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value} is no number")
    if not 0 <= value < LARGEST / 1000:
        raise ValueError(f"{value} is no amount")
    return value


def goben_commands(order: Order) -> Commands:
    """Return the command lines of goben 1.1, which ends flows by time and not by size.

    Args:
        order: The run.

    Raises:
        ValueError: The flow has a size and no rate.
    """
    duration_s = FOREVER_S if order.duration_ns is None else order.duration_ns / 1e9
    if order.size_bytes is not None:
        if order.rate_bps is None:
            raise ValueError("goben needs a rate to send a size")
        duration_s = min(duration_s, order.size_bytes * 8 / order.rate_bps)
    address = f"{order.dst_ip}:{order.port}"
    common = ["--tls=false", "--reportInterval", "100ms"]
    common += ["--udp"] if order.is_udp else []
    client = ["goben", "--hosts", address, "--passiveServer", *common]
    client += ["--totalDuration", f"{max(round(duration_s * 1000), 1)}ms"]
    if order.rate_bps is not None:
        client += ["--maxSpeed", f"{order.rate_bps / 1e6:.6f}"]
    if order.is_udp:
        client += ["--udpWriteSize", str(UDP_BLOCK_BYTES)]
    return Commands(["goben", "--listeners", address, *common], client, receiver_connects=False)


_AGGREGATE = re.compile(r"aggregate writing: ([0-9.]+) Mbps")
_TIMER = re.compile(r"handleConnectionClient: (\S+) timer")
_PART = re.compile(r"([0-9.]+)(h|ms|µs|us|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


def goben_result(order: Order, sender: str, receiver: str) -> Result | None:
    """Read the client's log: its aggregate rate, over the time that its timer names.

    The log tells no bytes, and what the server received only by intervals; over TCP both agree.

    Args:
        order: The run.
        sender: Output of the sender.
        receiver: Output of the receiver.
    """
    rate, timer = _AGGREGATE.search(sender), _TIMER.search(sender)
    if rate is None or timer is None:
        return None
    try:
        seconds = _amount(sum(float(n) * _SECONDS[unit] for n, unit in _PART.findall(timer[1])))
        sent_bytes = round(_amount(float(rate[1]) * 1e6 / 8 * seconds))
    except ValueError:
        return None
    return Result(sent_bytes, sent_bytes, seconds)


@dataclass(frozen=True)
class Native:
    """The generator of dcgym itself, one process for all hosts, which needs no tool."""


NATIVE = "native"
"""Name of dcgym's own generator."""

GENERATORS: Registry[Tool | Native] = Registry("generators", "generator")
"""What may send the traffic of an emulation, by name.

Tools run in a process of their own (`adapter`): one that another package adds is found there
through an entry point of the package.
"""

GENERATORS.add(NATIVE, Native(), "dcgym's own, one process for all hosts")
GENERATORS.add(
    "iperf3",
    Tool(
        "iperf3",
        "apt-get install iperf3",
        iperf3_commands,
        iperf3_result,
        # Its libraries, a block of random bytes and the parameters of the test.
        start_bytes=140_000,
        listener_ends=True,
        keeps_duration=False,  # in whole seconds alone
        chooses_congestion_control=True,
    ),
    "two iperf3 processes a flow",
)
GENERATORS.add(
    "goben",
    Tool(
        "goben",
        "go install github.com/udhos/goben/cmd/goben@latest, and put it on the PATH",
        goben_commands,
        goben_result,
        start_bytes=0,
        listener_ends=False,
        keeps_duration=True,
        chooses_congestion_control=False,
    ),
    "two goben processes a flow",
)


def find_tool(name: str) -> Tool:
    """Return the tool that is a generator.

    Args:
        name: Its name in `GENERATORS`.

    Raises:
        ConfigError: No tool has this name.
    """
    tool = GENERATORS.find(name)
    if not isinstance(tool, Tool):
        tools = [known for known, one in GENERATORS.items() if isinstance(one, Tool)]
        raise ConfigError("generator", name, tools)
    return tool


def require_generator(name: str) -> None:
    """Check that a generator exists and is installed.

    Args:
        name: Its name in `GENERATORS`.

    Raises:
        ConfigError: No generator has this name.
        FeatureNotSupported: Its program is not on the PATH.
    """
    tool = GENERATORS.find(name)
    if isinstance(tool, Tool) and shutil.which(tool.program) is None:
        raise FeatureNotSupported(f"the traffic generator {name!r}", tool.hint)
