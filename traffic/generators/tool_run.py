"""One run of a flow by two processes of a traffic tool, in the namespaces of two hosts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dcgym.traffic.generators.tools import Order, Result, Tool
from dcgym.traffic.generators.view import CUT, FINISHED, REFUSED, RESET

__all__ = ["ToolRun", "in_namespace"]

LISTEN_DEADLINE_NS = 3_000_000_000
ANSWER_DEADLINE_NS = 500_000_000
FOREVER_NS = 1 << 62
_LISTENING = {"tcp": "0A", "udp": "07"}  # enum of net/tcp_states.h: TCP_LISTEN, TCP_CLOSE


def in_namespace(namespace: str, argv: list[str]) -> list[str]:
    """Return a command line that runs another in a network namespace and dies with its parent.

    Args:
        namespace: File of the network namespace.
        argv: The command.
    """
    return ["setpriv", "--pdeathsig", "KILL", "--", "nsenter", f"--net={namespace}", "--", *argv]


class _Process:
    """A tool's process, its output kept in memory."""

    def __init__(self, namespace: str, argv: list[str]) -> None:
        self._output_fd = os.memfd_create("dcgym-tool", os.MFD_CLOEXEC)
        self._process = subprocess.Popen(
            in_namespace(namespace, argv),
            stdin=subprocess.DEVNULL,
            stdout=self._output_fd,
            stderr=self._output_fd,
            cwd="/",
        )

    def ended(self) -> bool:
        return self._process.poll() is not None

    def failed(self) -> bool:
        return bool(self._process.returncode)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def transferred(self, name: str) -> int:
        """Return a counter of proc(5), ``rchar`` or ``wchar``, which sockets count in too."""
        with contextlib.suppress(OSError):
            rows = Path(f"/proc/{self._process.pid}/io").read_text(encoding="ascii").splitlines()
            return int(dict(row.split(": ") for row in rows)[name])
        return 0

    def listens(self, ip: str, port: int) -> bool:
        address = f"{int.from_bytes(bytes(map(int, ip.split('.'))), 'little'):08X}:{port:04X}"
        for protocol, state in _LISTENING.items():
            with contextlib.suppress(OSError):
                table = Path(f"/proc/{self._process.pid}/net/{protocol}").read_text("ascii")
                if any(row.split()[1:4:2] == [address, state] for row in table.splitlines()):
                    return True
        return False

    def close(self) -> str:
        """End the process and return what it said."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        size = os.fstat(self._output_fd).st_size
        text = os.pread(self._output_fd, size, 0).decode(errors="replace")
        os.close(self._output_fd)
        return text


@dataclass(frozen=True)
class Place:
    """Which run of which flow this is, between which hosts; its time counts from the plan's."""

    flow: int
    repetition: int
    src: int
    dst: int
    planned_ns: int


class ToolRun:
    """The listener from the beginning, the connector from the planned time on."""

    def __init__(
        self, tool: Tool, order: Order, place: Place, namespaces: tuple[str, str], now_ns: int
    ) -> None:
        """Start the listener; namespaces are those of source and destination."""
        self.place, self.order = place, order
        self.outcome = 0
        self.start_ns = self.end_ns = 0
        self.result = Result(0, 0, 0.0)
        self._tool = tool
        self._commands = tool.commands(order)
        self._receiver_connects = self._commands.receiver_connects
        listens_at, self._connects_at = namespaces if self._receiver_connects else namespaces[::-1]
        self._address = order.src_ip if self._receiver_connects else order.dst_ip
        self._listener = _Process(listens_at, self._commands.listener)
        self._connector: _Process | None = None
        self._deadline_ns = now_ns + LISTEN_DEADLINE_NS
        self._asked_to_end = 0
        self._longest_ns = FOREVER_NS if order.duration_ns is None else order.duration_ns
        if tool.keeps_duration:
            self._longest_ns += ANSWER_DEADLINE_NS

    @property
    def active(self) -> bool:
        """Whether the flow has been started and has not ended."""
        return self._connector is not None and not self.outcome

    def step(self, now_ns: int, origin_ns: int) -> None:
        """Do what is due; `outcome` is set once the run has ended.

        Args:
            now_ns: The present (CLOCK_MONOTONIC).
            origin_ns: Beginning of the plan, 0 before it is started.
        """
        if self._asked_to_end:
            self._await_end(now_ns)
        elif self._connector is None:
            self._begin(now_ns, origin_ns + self.place.planned_ns)
        elif self._connector.ended():
            self.end_ns = now_ns
            outcome = RESET if self._connector.failed() else FINISHED
            self._ask(outcome, now_ns, not self._tool.listener_ends)
        elif now_ns >= origin_ns + self.place.planned_ns + self._longest_ns:
            self.end_ns = now_ns
            self._ask(FINISHED, now_ns)

    def cut(self, now_ns: int) -> None:
        """Ask both processes to end and to report.

        Args:
            now_ns: The present (CLOCK_MONOTONIC).
        """
        if not self._asked_to_end:
            self.end_ns = now_ns
            self._ask(CUT, now_ns)

    def live_bytes(self) -> tuple[int, int]:
        """Return about how many bytes were sent and received so far."""
        if not self.active or self._connector is None:
            return 0, 0
        sender, receiver = self._sides(self._connector)
        received = max(receiver.transferred("rchar") - self._tool.start_bytes, 0)
        sent = sender.transferred("wchar") if self.order.is_udp else received
        return sent, received

    def close(self) -> None:
        """Kill what still runs and read what was reported."""
        live = self.live_bytes()
        connected = self._connector is not None
        listener = self._listener.close()
        connector = self._connector.close() if self._connector is not None else ""
        texts = (listener, connector) if self._receiver_connects else (connector, listener)
        result = self._tool.result(self.order, *texts) if connected else None
        if result is None:
            result = Result(live[1], live[0], max(self.end_ns - self.start_ns, 0) / 1e9)
        self.result = result
        self.outcome = self._asked_to_end or REFUSED
        if self.outcome == RESET and not result.received_bytes:
            self.outcome = REFUSED
        self.start_ns = max(self.end_ns - round(result.seconds * 1e9), self.start_ns)

    def _begin(self, now_ns: int, planned_ns: int) -> None:
        if self._listener.ended() or now_ns > max(self._deadline_ns, planned_ns):
            self.start_ns = self.end_ns = now_ns
            self.close()
        elif now_ns >= planned_ns and self._listener.listens(self._address, self.order.port):
            self.start_ns = now_ns
            self._connector = _Process(self._connects_at, self._commands.connector)

    def _ask(self, outcome: int, now_ns: int, interrupt: bool = True) -> None:
        self._asked_to_end = outcome
        self._deadline_ns = now_ns + ANSWER_DEADLINE_NS
        for process in (self._listener, self._connector) if interrupt else ():
            if process is not None:
                process.signal(signal.SIGINT)

    def _await_end(self, now_ns: int) -> None:
        is_over = self._listener.ended() and (self._connector is None or self._connector.ended())
        if is_over or now_ns > self._deadline_ns:
            self.close()

    def _sides(self, connector: _Process) -> tuple[_Process, _Process]:
        """Return the sender and the receiver."""
        sides = self._listener, connector
        return sides if self._receiver_connects else sides[::-1]
