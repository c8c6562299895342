"""Two hosts over two switches of any kind, and over none: what fabrics are compared on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Protocol

from dcgym.backends.emulation.emulator.run import run
from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.errors import BackendError
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology

__all__ = ["FREE", "KINDS", "Execute", "network"]

KINDS = ("veth", "ebpf", "bridge", "ovs")
# Above what any fabric here carries: the figure is the fabric's, not the shaper's.
FREE = {"name": "dumbbell", "hosts": 2, "rate": "200Gbit", "queue": "64MB"}
DEADLINE_S = 5.0


class Execute(Protocol):
    """Runs a command in a host and returns its output."""

    def __call__(self, host: str, *argv: str, timeout_s: float = ...) -> str:
        """Run it.

        Args:
            host: Name of the host.
            *argv: The command and its arguments.
            timeout_s: How long it may take.
        """


class PlainNetwork:
    """Two namespaces joined by a veth pair, or through two Linux bridges in a third one."""

    def __init__(self, bridges: bool) -> None:
        self._holders = [self._hold() for _ in range(3)]
        a, b, middle = (holder.pid for holder in self._holders)
        if bridges:
            self._bridge(a, b, middle)
        else:
            self._inside(a, f"ip link add eth0 type veth peer name eth0 netns {b}")
        for number, pid in enumerate((a, b), start=1):
            self._inside(pid, f"ip addr add 10.0.0.{number}/24 dev eth0")
            self._inside(pid, "ip link set eth0 up")

    def _bridge(self, a: int, b: int, middle: int) -> None:
        for name in ("s1", "s2"):
            self._inside(middle, f"ip link add {name} type bridge")
            self._inside(middle, f"ip link set {name} up")
        self._inside(middle, f"ip link add p1 type veth peer name eth0 netns {a}")
        self._inside(middle, f"ip link add p2 type veth peer name eth0 netns {b}")
        self._inside(middle, "ip link add c1 type veth peer name c2")
        for port, switch in (("p1", "s1"), ("c1", "s1"), ("p2", "s2"), ("c2", "s2")):
            self._inside(middle, f"ip link set {port} master {switch} up")

    @staticmethod
    def _hold() -> subprocess.Popen[bytes]:
        holder = subprocess.Popen(["unshare", "-n", "sleep", "600"])
        own, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + DEADLINE_S
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            if time.monotonic() > deadline:
                raise BackendError("unshare made no network namespace")
            time.sleep(0.002)
        return holder

    @staticmethod
    def _inside(pid: int, command: str) -> str:
        return run("nsenter", "-t", str(pid), "-n", *command.split())

    def execute(self, host: str, *argv: str, timeout_s: float = 30.0) -> str:
        """Run a command in host h1 or h2."""
        pid = self._holders[int(host[1:]) - 1].pid
        return run("nsenter", "-t", str(pid), "-n", *argv, timeout_s=timeout_s)

    def close(self) -> None:
        """End the holders, and the namespaces with them."""
        for holder in self._holders:
            # What was started in the namespace must end too: it would keep the namespace alive.
            for pid in _processes_in(holder.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            holder.wait()


def _processes_in(namespace_of: int) -> list[int]:
    wanted = os.readlink(f"/proc/{namespace_of}/ns/net")
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{entry}/ns/net") == wanted:
                found.append(int(entry))
    return found


@contextlib.contextmanager
def network(kind: str) -> Iterator[Execute]:
    """Yield the execute function of two hosts h1, h2 over the network of that kind."""
    if kind in ("ebpf", "ovs"):
        emulated = OneNetwork(EmulationNetwork(make_topology(FREE), NetworkOptions(switch=kind)))
        emulated.start()
        try:
            yield emulated.lab.execute
        finally:
            emulated.close()
    else:
        plain = PlainNetwork(bridges=kind == "bridge")
        try:
            yield plain.execute
        finally:
            plain.close()
