"""Network pieces for the scenarios, which run inside `unshare -n` and own all they see."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
DEADLINE_S = 30.0
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def run(command: str) -> None:
    """Run a command without a shell; its failure is the scenario's."""
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


def ip(*commands: str) -> None:
    """Run commands of `ip` in one process; the failure of one is the scenario's."""
    lines = "".join(f"{command}\n" for command in commands)
    subprocess.run(["ip", "-batch", "-"], input=lines.encode(), check=True)


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, or fail."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.001)


def quiet() -> None:
    """Keep IPv6's own chatter off the counters of this namespace."""
    Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")


def veths(peers: Mapping[str, str]) -> None:
    """Add pairs of interfaces, given by name and peer, and bring all up."""
    commands = []
    for name, peer in peers.items():
        commands.append(f"link add name {name} type veth peer name {peer}")
        commands += [f"link set dev {end} up" for end in (name, peer)]
    ip(*commands)


def _in_thread(body: Callable[[], T]) -> T:
    outcome: dict[str, Any] = {}

    def call() -> None:
        try:
            outcome["value"] = body()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def new_namespace() -> int:
    """Return a descriptor of a fresh network namespace; only a thread enters it."""

    def create() -> int:
        if LIBC.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        quiet()
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    return _in_thread(create)


def within(namespace: int, body: Callable[[], T]) -> T:
    """Run a function, sockets and subprocesses included, in a namespace."""

    def enter() -> T:
        if LIBC.setns(namespace, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        return body()

    return _in_thread(enter)


def host(number: int, port: str) -> int:
    """Join a new namespace `h<number>` to a switch port; return its descriptor."""
    namespace = new_namespace()
    name = f"h{number}-eth0"
    ip(
        f"link add {port} type veth peer name {name}",
        f"link set dev {name} netns /proc/{os.getpid()}/fd/{namespace}",
        f"link set dev {port} up",
    )

    def configure() -> None:
        ip(
            f"link set dev {name} address 02:dc:00:00:00:{number:02x}",
            f"address add 10.0.0.{number}/8 dev {name}",
            # One packet a buffer, so that packets and segments are counted alike.
            f"link set dev {name} gso_max_segs 1",
            f"link set dev {name} up",
        )

    within(namespace, configure)
    return namespace


def know(namespace: int, me: int, other: int) -> None:
    """Give a host a permanent neighbour: the fabric carries no broadcast."""
    command = f"ip neigh add 10.0.0.{other} lladdr 02:dc:00:00:00:{other:02x} dev h{me}-eth0"
    within(namespace, lambda: run(command))


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_frame(destination: int, size_bytes: int, sequence: int, tos: int = 2) -> bytes:
    """Return an Ethernet frame of UDP over IPv4 from host 1; ECT(0) by default."""
    length = size_bytes - 14
    addresses = bytes([10, 0, 0, 1, 10, 0, 0, destination])
    header = struct.pack("!BBHHHBBH", 0x45, tos, length, sequence, 0, 64, 17, 0) + addresses
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    macs = bytes([2, 0xDC, 0, 0, 0, destination, 2, 0xDC, 0, 0, 0, 1])
    udp = struct.pack("!HHHH", 1000, 2000, length - 20, 0)
    return (macs + b"\x08\x00" + header + udp).ljust(size_bytes, b"\0")
