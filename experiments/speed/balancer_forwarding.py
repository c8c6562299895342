"""Packets that a balancer really forwards: received from a veth pair, rewritten, sent back to it.

One processor does all, from the sender's system call to the receiver's interface, in which the
frame ends, so that the rate is the inverse of a packet's whole cost. `measure_forwarding` runs this
module as a process in a network namespace of its own.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from dcgym.backends.emulation.emulator.run import run
from experiments.speed.balancer import RULES, benchmark_frame, make_balancer

__all__ = ["measure_forwarding"]

POOLS = (8, 64)
NEW_FLOWS, FLOW_PACKETS = 1, 10  # packets a flow: the worst case, and a short request's
FRAMES, ROUNDS = 30_000, 7
SYN, ACK, FIN = 0x02, 0x10, 0x11
HERE, THERE = "here0", "there0"
DEADLINE_S = 10.0
MEASURE_S = 600.0


def measure_forwarding() -> list[dict[str, Any]]:
    """Measure the packet rate by rule, beside ECMP's: each packet opens a flow, or one in ten does.

    Returns:
        Rows of rule, and for each pool and length of flows the thousands of packets a second and
        their ratio to ECMP's. The last row is the pair of interfaces without a balancer, whose
        frames end where the balancer would take them.
    """
    command = ["unshare", "-n", sys.executable, "-m", "experiments.speed.balancer_forwarding"]
    rows: list[dict[str, Any]] = json.loads(run(*command, timeout_s=MEASURE_S))
    return rows


def _pair() -> None:
    for path in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{path}/disable_ipv6").write_text("1")
    run("ip", "link", "add", HERE, "type", "veth", "peer", "name", THERE)
    for name in (HERE, THERE):
        run("ip", "link", "set", "dev", name, "up")


def _received() -> int:
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    counters = dict(line.split(":") for line in lines[2:])
    return int({name.strip(): text.split() for name, text in counters.items()}[HERE][1])


def _frames(packets: int) -> list[bytes]:
    middle = [ACK] * (packets - 2)
    flags = [SYN] if packets == NEW_FLOWS else [SYN, *middle, FIN]
    flows = FRAMES // len(flags)
    # Of 100 flows at a time a packet each, as they come where many are open.
    return [
        benchmark_frame(1024 + first + number, flag)
        for first in range(0, flows, 100)
        for flag in flags
        for number in range(100)
    ]


def _rate_kpps(sender: socket.socket, frames: list[bytes], forwarded: bool) -> float:
    before, send = _received(), sender.send
    began = time.perf_counter()
    for frame in frames:
        send(frame)
    taken = time.perf_counter() - began
    deadline = time.monotonic() + DEADLINE_S
    while forwarded and _received() - before < len(frames):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{_received() - before} of {len(frames)} frames came back")
    return len(frames) / taken / 1e3


def _rates(sender: socket.socket, n_servers: int, frames: list[bytes]) -> dict[str, float]:
    """Return each rule's best rate of several; the rules take turns."""
    balancer = make_balancer(n_servers, collect=True)
    balancer.set_timeouts(0, 10**12, 10**12, 0)  # the same flows open again and again
    ifindex = socket.if_nametoindex(THERE)
    rates = dict.fromkeys([*RULES, "no balancer"], 0.0)
    for _ in range(ROUNDS):
        balancer.attach(ifindex)
        for rule, number in RULES.items():
            balancer.pools.set_rule(0, number)
            rates[rule] = max(rates[rule], _rate_kpps(sender, frames, True))
        balancer.detach(ifindex)
        rates["no balancer"] = max(rates["no balancer"], _rate_kpps(sender, frames, False))
    balancer.close()
    return rates


def _main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    _pair()
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind((HERE, 0))
    rows: list[dict[str, Any]] = [{"rule": rule} for rule in [*RULES, "no balancer"]]
    for n_servers in POOLS:
        for packets in (NEW_FLOWS, FLOW_PACKETS):
            rates = _rates(sender, n_servers, _frames(packets))
            for row in rows:
                name = f"{n_servers} servers, {packets} a flow"
                row[f"{name} (kpps)"] = rates[row["rule"]]
                row[f"{name}: of ecmp"] = round(rates[row["rule"]] / rates["ecmp"], 3)
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    _main()
