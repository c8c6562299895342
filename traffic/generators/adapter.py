"""Speaks the native generator's protocol and has traffic tools or applications send.

Started by `Generator` as ``python -m dcgym.traffic.generators.adapter``. It ends when its parent
or its control socket does, and every process that it starts ends with it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import os
import select
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dcgym.errors import DcgymError
from dcgym.traffic.generators.app_engine import AppEngine
from dcgym.traffic.generators.shared_block import SharedBlock
from dcgym.traffic.generators.tool import Order, Tool
from dcgym.traffic.generators.tool_ports import listening_ports
from dcgym.traffic.generators.tool_routes import CongestionRoutes
from dcgym.traffic.generators.tool_run import Place, ToolRun
from dcgym.traffic.generators.tools import find_tool
from dcgym.traffic.generators.view import FINISHED, HOST_DTYPE
from dcgym.traffic.plans.applications import APPS
from dcgym.traffic.plans.records import FLOW_DTYPE, NONE, Records

__all__ = ["main"]

TICK_NS = 4_000_000
LEAD_NS = 300_000_000  # a listener is started so long before its flow
LATE_NS = 2_000_000
RETRY_NS = 100_000_000
MOST_FLOWS = 4_096
REPORTED_FLOWS = 1_000  # one message holds them
REQUEST_BYTES = 1 << 20
_SO_SNDBUFFORCE = 32  # socket(7)


class _Engine(Protocol):
    """What sends; times count from a plan's origin, of which nothing is known before its start."""

    def set_hosts(self, namespaces: Sequence[str], addresses: Sequence[str]) -> None: ...

    def load(self, plan_fd: int, n_rows: int, congestion: Sequence[str]) -> int: ...

    def start(self, start_ns: int) -> None: ...

    def stop(self) -> int: ...

    def tick(self) -> None: ...

    def report(self, first: int) -> str: ...


class _ToolEngine:
    """Runs a plan of flows, each by two processes of a tool."""

    def __init__(self, tool: Tool, block_fd: int) -> None:
        self._tool, self._block_fd = tool, block_fd
        self._namespaces: list[str] = []
        self._addresses: list[str] = []
        self._flows: Records = np.empty(0, FLOW_DTYPE)
        self._congestion: Sequence[str] = []
        self._origin_ns = 0
        self._ports: Sequence[int] = []
        self._clear()

    def _clear(self) -> None:
        self._due: list[tuple[int, int, int]] = []
        self._runs: list[ToolRun] = []
        self._n_ended = self._n_exhausted = self._n_started = self._n_late = 0

    def set_hosts(self, namespaces: Sequence[str], addresses: Sequence[str]) -> None:
        self._namespaces, self._addresses = list(namespaces), list(addresses)
        self._routes = CongestionRoutes(self._namespaces)
        self._block = SharedBlock(self._block_fd, len(namespaces))
        self._settled = np.zeros(len(namespaces), HOST_DTYPE)
        self._published = self._settled.copy()
        self._publish()

    def load(self, plan_fd: int, n_rows: int, congestion: Sequence[str]) -> int:
        """Replace the plan, and start the listeners of its first flows."""
        self.stop()
        flows = np.frombuffer(os.pread(plan_fd, n_rows * FLOW_DTYPE.itemsize, 0), FLOW_DTYPE)
        if len(flows) > MOST_FLOWS:
            raise ValueError(
                f"a plan of {len(flows)} flows; {self._tool.program} takes {MOST_FLOWS}"
            )
        self._flows, self._congestion = flows, congestion
        self._ports = [int(port) for port in flows["port"]]
        listens_at: list[int] = []
        for flow in range(len(flows)):
            try:
                listens_at.append(self._listener_of(flow))
            except ValueError as error:
                raise ValueError(f"flow {flow}: {error}") from error
        self._ports = listening_ports(flows["port"].tolist(), listens_at)
        if not self._tool.chooses_congestion_control:
            self._routes.choose(self._congestion)
        self._rewind()
        return len(flows)

    def report(self, first: int) -> str:
        """Return the processes of each flow as JSON, those of so many flows from this one on."""
        return json.dumps([self._processes(flow) for flow in self._reported(first)])

    def _reported(self, first: int) -> range:
        return range(len(self._flows))[first : first + REPORTED_FLOWS]

    def _processes(self, flow: int) -> dict[str, object]:
        """Return who runs which commands; the same in each repetition."""
        commands, row = self._tool.commands(self._order(flow)), self._flows[flow]
        ends = int(row["src"]), int(row["dst"])
        listens_at, connects_at = ends if commands.receiver_connects else ends[::-1]
        return {
            "flow": flow,
            "listens_at": listens_at,
            "listener": shlex.join(commands.listener),
            "connects_at": connects_at,
            "connector": shlex.join(commands.connector),
        }

    def _listener_of(self, flow: int) -> int:
        side = "src" if self._tool.commands(self._order(flow)).receiver_connects else "dst"
        return int(self._flows[side][flow])

    def _rewind(self) -> None:
        self._clear()
        for flow in np.flatnonzero(self._flows["after"] == NONE):
            self._due.append((int(self._flows["start_ns"][flow]), int(flow), 0))
        heapq.heapify(self._due)
        self._prepare(0)

    def start(self, start_ns: int) -> None:
        if self._origin_ns:
            self.stop()
        if not self._runs and not self._n_started:
            self._rewind()
        self._origin_ns = start_ns
        self._block.begin()
        self.tick()

    def stop(self) -> int:
        """Cut everything, wait for the reports, and return how many flows were cut."""
        now_ns = time.monotonic_ns()
        n_active = sum(run.active for run in self._runs)
        for run in self._runs:
            run.cut(now_ns)
        waiting = list(self._runs)
        while waiting:
            now_ns = time.monotonic_ns()
            for run in waiting:
                was_active = run.active
                run.step(now_ns, self._origin_ns)
                if run.outcome and was_active:
                    self._record(run)
            waiting = [run for run in waiting if not run.outcome]
            self._heartbeat()
            time.sleep(0.002)
        self._clear()
        self._origin_ns = 0
        self._publish()
        return n_active

    def tick(self) -> None:
        """Do what is due and publish the counters."""
        if self._origin_ns:
            now_ns = time.monotonic_ns()
            self._prepare(now_ns - self._origin_ns)
            for run in self._runs:
                was_active = run.active
                run.step(now_ns, self._origin_ns)
                if run.active and not was_active:
                    self._n_started += 1
                    self._heartbeat()  # many that start at once take longer than a tick
                if run.outcome:
                    self._end(run)
            self._runs = [run for run in self._runs if not run.outcome]
        self._publish()

    def _prepare(self, time_ns: int) -> None:
        while self._due and self._due[0][0] <= time_ns + LEAD_NS:
            planned_ns, flow, repetition = heapq.heappop(self._due)
            row, order = self._flows[flow], self._order(flow)
            src, dst = int(row["src"]), int(row["dst"])
            place = Place(flow, repetition, src, dst, planned_ns)
            namespaces = self._namespaces[src], self._namespaces[dst]
            run = ToolRun(self._tool, order, place, namespaces, time.monotonic_ns())
            self._runs.append(run)
            self._heartbeat()

    def _order(self, flow: int) -> Order:
        row = self._flows[flow]

        def limit(name: str) -> int | None:
            return None if row[name] == NONE else int(row[name])

        return Order(
            src_ip=self._addresses[int(row["src"])],
            dst_ip=self._addresses[int(row["dst"])],
            port=self._ports[flow],
            is_udp=bool(row["transport"]),
            size_bytes=limit("size_bytes"),
            duration_ns=limit("duration_ns"),
            rate_bps=limit("rate_bps"),
            congestion_control=self._congestion[int(row["src"])],
        )

    def _end(self, run: ToolRun) -> None:
        self._record(run)
        self._n_ended += 1
        flow, done = run.place.flow, run.place.repetition + 1
        ended_ns = run.end_ns - self._origin_ns
        least_ns = 0 if run.outcome == FINISHED else RETRY_NS
        repetitions = int(self._flows["repetitions"][flow])
        if repetitions == 0 or done < repetitions:
            pause_ns = max(int(self._flows["gap_ns"][flow]), least_ns)
            heapq.heappush(self._due, (ended_ns + pause_ns, flow, done))
            return
        self._n_exhausted += 1
        for follower in np.flatnonzero(self._flows["after"] == flow):
            pause_ns = max(int(self._flows["start_ns"][follower]), least_ns)
            heapq.heappush(self._due, (ended_ns + pause_ns, int(follower), 0))

    def _record(self, run: ToolRun) -> None:
        place, result = run.place, run.result
        planned_ns = self._origin_ns + place.planned_ns
        self._n_late += run.start_ns - planned_ns > LATE_NS
        sent = result.sent_bytes if run.order.is_udp else result.received_bytes
        self._settled["tx_bytes"][place.src] += sent
        self._settled["rx_bytes"][place.dst] += result.received_bytes
        self._settled["retransmits"][place.src] += result.retransmits
        self._block.append(
            {
                "id": place.flow,
                "repetition": place.repetition,
                "src": place.src,
                "dst": place.dst,
                "transport": int(run.order.is_udp),
                "outcome": run.outcome,
                "planned_start_ns": planned_ns,
                "start_ns": run.start_ns,
                "end_ns": run.end_ns,
                "bytes": result.received_bytes,
                "srtt_ns": result.srtt_ns,
                "min_rtt_ns": result.min_rtt_ns,
                "retransmits": result.retransmits,
            }
        )

    def _heartbeat(self) -> None:
        self._block.publish({"heartbeat_ns": time.monotonic_ns()}, self._published)

    def _publish(self) -> None:
        if not self._namespaces:
            return
        hosts = self._settled.copy()
        active = [run for run in self._runs if run.active]
        for run in active:
            sent, received = run.live_bytes()
            hosts["tx_bytes"][run.place.src] += sent
            hosts["rx_bytes"][run.place.dst] += received
            hosts["active_flows"][run.place.src] += 1
        # A live count includes the tool's own messages: it may be ahead of what the tool reports.
        for name in ("tx_bytes", "rx_bytes"):
            hosts[name] = np.maximum(hosts[name], self._published[name])
        self._published = hosts
        now_ns = time.monotonic_ns()
        fields = {
            "heartbeat_ns": now_ns,
            "sample_ns": now_ns,
            "start_ns": self._origin_ns,
            "flows_planned": len(self._flows),
            "flows_active": len(active),
            "flows_finished": self._n_ended,
            "finished": int(0 < len(self._flows) == self._n_exhausted),
            "starts": self._n_started,
            "late_starts": self._n_late,
        }
        self._block.publish(fields, hosts)


class _Protocol:
    """Answers the requests of the owner."""

    def __init__(self, engine: _Engine) -> None:
        self._engine, self._n_hosts = engine, 0

    def answer(self, request: str, fds: Sequence[int]) -> str:
        command, _, rest = request.partition("\n")
        command, *values = command.split()
        if command == "hosts":
            rows = [line.split() for line in rest.splitlines()]
            self._engine.set_hosts([row[1] for row in rows], [row[2] for row in rows])
            self._n_hosts = len(rows)
            return f"ok {len(rows)}"
        if command == "plan":
            names = ["" if name == "-" else name for name in rest.split()]
            if len(names) != self._n_hosts:
                raise ValueError("a plan without a congestion control for each host")
            return f"ok {self._engine.load(fds[0], int(values[0]), names)}"
        if command == "start":
            self._engine.start(int(values[0]))
            return "ok"
        if command == "stop":
            return f"ok {self._engine.stop()}"
        if command == "report":
            return f"ok {self._engine.report(int(values[0]))}"
        raise ValueError(f"{command} is known to the native generator alone")


def _serve(control: socket.socket, engine: _Engine) -> None:
    protocol = _Protocol(engine)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    next_ns = 0
    while True:
        next_ns = max(next_ns + TICK_NS, time.monotonic_ns())
        while poll.poll(max(next_ns - time.monotonic_ns(), 0) / 1e6):
            request, fds, _, _ = socket.recv_fds(control, REQUEST_BYTES, 1)
            if not request:
                return
            try:
                reply = protocol.answer(request.decode(), fds)
            except (DcgymError, ValueError, OSError, subprocess.SubprocessError) as error:
                reply = f"error {error}"
            for fd in fds:
                os.close(fd)
            control.send(reply.encode())
        engine.tick()


def main() -> int:
    """Serve the control socket until it closes; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True, help=f"a tool of GENERATORS, or {APPS}")
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--shm-fd", type=int, required=True)
    arguments = parser.parse_args()
    engine: _Engine
    if arguments.tool == APPS:
        engine = AppEngine(arguments.shm_fd)
    else:
        engine = _ToolEngine(find_tool(arguments.tool), arguments.shm_fd)
    with socket.socket(fileno=arguments.control_fd) as control:
        # The report of many applications is one message.
        control.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, REQUEST_BYTES)
        # The owner ends us by closing the socket, perhaps while we answer.
        with contextlib.suppress(ConnectionError):
            _serve(control, engine)
        engine.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
