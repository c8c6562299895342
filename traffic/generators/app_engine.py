"""Runs a plan of applications behind the traffic generator's protocol."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

import numpy as np

from dcgym.processes import find_processes
from dcgym.traffic.generators.app_run import FAMILY_VARIABLE, AppRun
from dcgym.traffic.generators.host_spaces import HostSpaces, start_in_host
from dcgym.traffic.generators.interfaces import InterfaceCounters
from dcgym.traffic.generators.shared_block import SharedBlock
from dcgym.traffic.generators.tool_routes import CongestionRoutes
from dcgym.traffic.generators.view import HOST_DTYPE

__all__ = ["AppEngine"]

LATE_NS = 2_000_000
SAMPLE_NS = 20_000_000
GRACE_NS = 200_000_000
END_NS = 2_000_000_000
PAUSE_S = 0.002


class AppEngine:
    """Runs each host's applications in a space inside the host's, so that none survives it.

    The counters of the hosts are those of their interfaces: whatever the applications send and
    however they do it, it is counted.
    """

    def __init__(self, block_fd: int) -> None:
        """Take the shared block."""
        # What the emulator ignores, its children would; they shall have the usual disposition.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._block_fd = block_fd
        self._runs: list[AppRun] = []
        self._namespaces: list[str] = []
        self._spaces: HostSpaces | None = None
        self._origin_ns = 0
        self._reported_ns = 0  # the origin that the records count from
        self._plan: bytes = b"[]"
        self._families: Mapping[str, Sequence[int]] | None = None
        self._next_sample_ns = 0

    def set_hosts(self, namespaces: Sequence[str], addresses: Sequence[str]) -> None:
        """Lay out the block for these hosts.

        Args:
            namespaces: File of each host's network namespace.
            addresses: Address of each host.
        """
        self._namespaces = list(namespaces)
        self._routes = CongestionRoutes(self._namespaces)
        self._counters = InterfaceCounters(self._namespaces)
        self._block = SharedBlock(self._block_fd, len(namespaces))
        self._hosts = np.zeros(len(namespaces), HOST_DTYPE)
        self._publish()

    def load(self, plan_fd: int, n_rows: int, congestion: Sequence[str]) -> int:
        """Replace the plan; returns how many applications it has.

        Args:
            plan_fd: Memory file of the plan.
            n_rows: Its rows, or bytes.
            congestion: Congestion control of each host.
        """
        self.stop()
        self._plan = os.pread(plan_fd, os.fstat(plan_fd).st_size, 0)
        self._routes.choose(congestion)
        self._rewind()
        return len(self._runs)

    def start(self, start_ns: int) -> None:
        """Run the plan from its beginning.

        Args:
            start_ns: Time 0 of the plan (CLOCK_MONOTONIC).
        """
        if self._origin_ns:
            self.stop()
        if self._spaces is None:
            self._rewind()
        self._origin_ns = self._reported_ns = start_ns
        self._block.begin()
        self.tick()

    def stop(self) -> int:
        """End everything that runs, and return how many applications that were."""
        active = [run for run in self._runs if run.active]
        now_ns, self._families = time.monotonic_ns(), None
        for run in active:
            run.end("cut", now_ns)
        deadline_ns = now_ns + GRACE_NS
        while any(run.active for run in active) and time.monotonic_ns() < deadline_ns:
            self._step(active)
            self._heartbeat()
            time.sleep(PAUSE_S)
        self._end_spaces(active)
        self._close_sockets()
        self._origin_ns = 0
        self._publish()
        return len(active)

    def tick(self) -> None:
        """Do what is due and publish the counters."""
        if self._origin_ns:
            self._step(self._runs)
        self._publish()

    def report(self, first: int) -> str:
        """Return the records of the applications as JSON, in the order of the plan.

        Args:
            first: Number of the first one.
        """
        return json.dumps([run.report(self._reported_ns) for run in self._runs[first:]])

    def _rewind(self) -> None:
        for run in self._runs:
            run.close()
        self._runs = []
        rows = json.loads(self._plan)
        hosts = sorted({row["host"] for row in rows})
        self._spaces = HostSpaces([self._namespaces[host] for host in hosts], nested=True)
        namespaces = dict(zip(hosts, self._spaces.networks, strict=True))
        for row in rows:
            self._runs.append(AppRun(row, namespaces[row["host"]], self._all_families))

    def _step(self, runs: Sequence[AppRun]) -> None:
        now_ns, self._families = time.monotonic_ns(), None
        for run in runs:
            run.step(now_ns, self._origin_ns)

    def _all_families(self) -> Mapping[str, Sequence[int]]:
        """Look at all processes, once in a step: many applications may end in it."""
        if self._families is None:
            self._families = find_processes(FAMILY_VARIABLE)
        return self._families

    def _end_spaces(self, active: Sequence[AppRun]) -> None:
        """End what left its process group too, and wait until all are gone."""
        if self._spaces is None:
            return
        self._spaces.end()
        deadline_ns = time.monotonic_ns() + END_NS
        while not self._spaces.has_ended() and time.monotonic_ns() < deadline_ns:
            # A space ends when what was started in it from outside has been waited for.
            self._step(active)
            self._heartbeat()
            time.sleep(PAUSE_S)
        self._spaces.close()
        self._spaces = None

    def _close_sockets(self) -> None:
        """End the connections that outlive their processes, in TIME_WAIT or with data to send.

        The next episode would find their ports taken (sock_diag(7), CONFIG_INET_DIAG_DESTROY).
        """
        hosts = {run.host for run in self._runs if run.start_ns}
        argv = ["ss", "--kill", "--tcp", "--all", "--numeric"]
        killers = [
            start_in_host(
                self._namespaces[host],
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for host in hosts
        ]
        for killer in killers:
            killer.wait(END_NS / 1e9)
            self._heartbeat()

    def _finished(self) -> bool:
        """Tell whether all have ended whose end is waited for."""
        awaited = [run for run in self._runs if not run.background]
        return bool(awaited) and all(run.ended for run in awaited)

    def _heartbeat(self) -> None:
        self._block.publish({"heartbeat_ns": time.monotonic_ns()}, self._hosts)

    def _sample(self, now_ns: int) -> None:
        if now_ns < self._next_sample_ns:
            return
        seen = self._counters.read()
        # Headers of small packets are more than what is taken off for them.
        for name in ("tx_bytes", "rx_bytes", "retransmits"):
            self._hosts[name] = np.maximum(seen[name], self._hosts[name])
        took_ns = time.monotonic_ns() - now_ns
        self._next_sample_ns = now_ns + max(SAMPLE_NS, 10 * took_ns)

    def _publish(self) -> None:
        if not self._namespaces:
            return
        now_ns = time.monotonic_ns()
        self._sample(now_ns)
        active = [run for run in self._runs if run.active]
        self._hosts["active_flows"] = 0
        for run in active:
            self._hosts["active_flows"][run.host] += 1
        started = [run for run in self._runs if run.start_ns]
        late = (run.start_ns - self._reported_ns - run.planned_ns > LATE_NS for run in started)
        fields = {
            "heartbeat_ns": time.monotonic_ns(),
            "sample_ns": now_ns,
            "start_ns": self._origin_ns,
            "flows_planned": len(self._runs),
            "flows_active": len(active),
            "flows_finished": sum(run.ended for run in self._runs),
            "finished": int(self._finished()),
            "starts": len(started),
            "late_starts": sum(late),
        }
        self._block.publish(fields, self._hosts)
