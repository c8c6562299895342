"""Two network namespaces joined by a veth pair, and plans run between them."""

from __future__ import annotations

import os
import subprocess
import time

from dcgym.traffic import Flow, Plan
from dcgym.traffic.generators.generator import Generator
from tests.support.waiting import wait_for

__all__ = ["ADDRESSES", "LEAD_NS", "Pair", "run_plan"]

LEAD_NS = 20_000_000
ADDRESSES = ("10.0.0.1", "10.0.0.2")


class Pair:
    """Two network namespaces, each held by a sleeping process, with a veth pair between them."""

    def __init__(self) -> None:
        self.holders = [self._hold(), self._hold()]
        a, b = (holder.pid for holder in self.holders)
        # Created from inside the first namespace, so that the machine's own never sees it.
        self.run(0, f"ip link add eth0 type veth peer name eth0 netns {b}")
        for side, ip in enumerate(ADDRESSES):
            up = f"addr add {ip}/24 dev eth0\nlink set eth0 up\n"
            self.run(side, "ip -batch -", up)
        assert a != b

    @staticmethod
    def _hold() -> subprocess.Popen[bytes]:
        holder = subprocess.Popen(["unshare", "-n", "sleep", "300"])
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own)
        return holder

    def run(self, side: int, command: str, typed: str | None = None) -> str:
        argv = ["nsenter", "-t", str(self.holders[side].pid), "-n", *command.split()]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, input=typed)
        return done.stdout

    def limit(self, rate: str, queue_bytes: int = 100_000, burst_bytes: int = 3000) -> None:
        """Shape the first host's link.

        A bucket makes up for timers that are late by as long as it takes to fill: 2.4 ms for 3,000
        bytes at 10 Mbit/s, too little for a rate on a busy machine.
        """
        limit = f"burst {burst_bytes} limit {queue_bytes}"
        self.run(0, f"tc qdisc add dev eth0 root tbf rate {rate} {limit}")

    def hosts(self) -> list[tuple[int, str, str]]:
        return [(i, f"/proc/{self.holders[i].pid}/ns/net", ip) for i, ip in enumerate(ADDRESSES)]

    def close(self) -> None:
        for holder in self.holders:
            holder.kill()
            holder.wait()


def run_plan(generator: Generator, *flows: Flow, cc: str | None = None) -> int:
    generator.load(Plan("test", 0, flows), {"h1": cc} if cc else None)
    start_ns = time.monotonic_ns() + LEAD_NS
    generator.start(start_ns)
    return start_ns
