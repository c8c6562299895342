"""Steer a TCP flow of dcgym_agent through its mapped arrays; print what the flow did each time."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from transport import build, connect, delivered, drain, unacknowledged

from dcgym.monitors.network.agent_flows import CommandFlag, read_agent_flows
from dcgym.native import bpf_object, require

MAPS = ("flows", "commands", "controls", "free_slots")
DEADLINE_S = 30.0
TAILS = 5
LEASE_US = 60_000_000
ONE_Q16 = 1 << 16


class Steered:
    """The agent, and the flow in its first slot."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    def rows(self) -> list[dict[str, int]]:
        rows = read_agent_flows(self.agent.read())
        return [{name: int(row[name]) for name in rows.dtype.names or ()} for row in rows]

    def wait(self, is_there: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """Return the flow's row as soon as it is so."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            rows = self.rows()
            if rows and is_there(rows[0]):
                return rows[0]
            if time.monotonic() > deadline:
                raise TimeoutError(f"still {rows}")
            time.sleep(0.001)

    def wait_without_loss(self) -> dict[str, int]:
        """Return the flow's row after a hundred packets of which none was lost."""
        while True:
            before = self.rows()[0]
            row = self.wait_for_packets(before)
            if row["lost_packets"] == before["lost_packets"]:
                return row

    def wait_for_packets(self, before: dict[str, int]) -> dict[str, int]:
        """Return the flow's row a hundred packets later."""
        enough = before["delivered_packets"] + 100
        return self.wait(lambda row: row["delivered_packets"] > enough)

    def command(
        self,
        flags: int,
        *,
        multiplier_q16: int = 0,
        cwnd: int = 0,
        rate: int = 0,
        lease_us: int = LEASE_US,
        generation: int | None = None,
    ) -> dict[str, int]:
        """Write a command; return the first row that has it."""
        before = self.rows()[0]
        self.agent.renew(now_us() + lease_us)
        told = before["generation"] if generation is None else generation
        self.agent.write([0], [told], [flags], [multiplier_q16], [cwnd], [rate])
        if generation is None:
            return self.wait(lambda row: row["taken"] > before["taken"])
        return self.wait_for_packets(before)


def now_us() -> int:
    return time.monotonic_ns() // 1000


def pump(connection: socket.socket, is_over: threading.Event) -> None:
    payload = bytes(1 << 16)
    connection.settimeout(0.05)
    while not is_over.is_set():
        try:
            connection.send(payload)
        except TimeoutError:
            continue


def steer(flow: Steered) -> dict[str, Any]:
    """Give one command after the other."""
    seen: dict[str, Any] = {"reno": flow.wait(lambda row: row["delivered_packets"] > 100)}
    seen["window"] = flow.command(CommandFlag.WINDOW, cwnd=20)
    # Reno's overshoot is repaired before the window is Reno's again.
    seen["before multiplier"] = flow.wait_without_loss()
    seen["multiplier"] = flow.command(CommandFlag.MULTIPLIER, multiplier_q16=ONE_Q16 // 2)
    seen["rate"] = flow.command(CommandFlag.RATE, rate=2_000_000)
    seen["no window"] = flow.command(CommandFlag.WINDOW, cwnd=0)
    seen["large rate"] = flow.command(CommandFlag.RATE, rate=1 << 63)
    seen["large factor"] = flow.command(CommandFlag.MULTIPLIER, multiplier_q16=(1 << 32) - 1)
    seen["unknown flags"] = flow.command(0xF0)
    seen["another flow"] = flow.command(CommandFlag.WINDOW, cwnd=7, generation=10_000)
    flow.command(CommandFlag.WINDOW, cwnd=12)
    # What "large factor" made the queue drop is repaired first: Reno would halve 12 for it.
    seen["before lease ended"] = flow.wait_without_loss()
    flow.agent.renew(now_us())
    seen["lease ended"] = flow.wait(lambda row: row["fallbacks"] > 0)
    before = seen["lease ended"]["taken"]
    flow.agent.write([0], [seen["reno"]["generation"]], [2], [0], [9], [0])
    seen["no lease"] = flow.wait_for_packets(seen["lease ended"])
    seen["taken without a lease"] = seen["no lease"]["taken"] > before
    return seen


def at_rest(flow: Steered, sender: socket.socket) -> tuple[dict[str, int], tuple[int, int]]:
    """Return the flow's row, and what the socket says was delivered, when all is acknowledged.

    Linux calls no congestion control for an ACK that comes when nothing is outstanding. Where a
    timer has sent the last packet twice, such an ACK counts the second: a further packet's ACK
    shows it.
    """
    for _ in range(TAILS):
        row = flow.wait(lambda row: not unacknowledged(sender))
        said = delivered(sender)
        if row["in_flight_packets"] == 0 and row["delivered_packets"] == said[0]:
            break
        sender.send(b"tail")
    return row, said


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    _, hosts = build(request)
    control = require().load_congestion_control(
        str(bpf_object("dcgym_agent")), f"agent_{os.getpid()}"
    )
    agent = require().FlowAgent(*(control.map_fd(name) for name in MAPS))
    agent.clear()
    flow = Steered(agent)
    sender, connection = connect(request, hosts, control.name.encode())
    local_port = sender.getsockname()[1]
    is_over = threading.Event()
    threading.Thread(target=drain, args=(connection, [0]), daemon=True).start()
    pumping = threading.Thread(target=pump, args=(sender, is_over), daemon=True)
    pumping.start()
    seen = steer(flow)
    is_over.set()
    pumping.join()
    seen["idle"], seen["tcp_info"] = at_rest(flow, sender)
    sender.close()
    # The kernel may keep a closed socket whose peer does not close for tcp_fin_timeout, a minute.
    connection.shutdown(socket.SHUT_WR)
    seen["closed"] = flow.wait(lambda row: row["state"] == 2)
    other, connection = connect(request | {"port": 5001}, hosts, control.name.encode())
    other.send(bytes(1 << 16))
    seen["next"] = flow.wait(lambda row: row["state"] == 1)
    result = {"rows": seen, "counters": agent.counters(), "port": local_port}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
