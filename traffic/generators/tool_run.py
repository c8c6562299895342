"""One run of a flow by two processes of a traffic tool, in the namespaces of two hosts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from dcgym.traffic.generators.host_spaces import start_in_host
from dcgym.traffic.generators.tool import Order, Result, Seen, Tool
from dcgym.traffic.generators.view import CUT, FINISHED, REFUSED, RESET

__all__ = ["ToolRun"]

LISTEN_DEADLINE_NS = 10_000_000_000
ANSWER_DEADLINE_NS = 500_000_000
FOREVER_NS = 1 << 62
_LISTENING = {"tcp": "0A", "udp": "07"}  # enum of net/tcp_states.h: TCP_LISTEN, TCP_CLOSE
_T = TypeVar("_T")


class _Process:
    """A tool's process, its output kept in memory."""

    def __init__(self, namespace: str, argv: list[str]) -> None:
        self._output_fd = os.memfd_create("dcgym-tool", os.MFD_CLOEXEC)
        self._process = start_in_host(
            namespace,
            argv,
            stdin=subprocess.DEVNULL,
            stdout=self._output_fd,
            stderr=self._output_fd,
            cwd="/",
        )
        self._exit: os.waitid_result | None = None

    def ended(self) -> bool:
        """Tell whether it has ended, and leave its counters to be read until `close`."""
        if self._exit is None:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            self._exit = os.waitid(os.P_PID, self._process.pid, flags)
        return self._exit is not None

    def failed(self) -> bool:
        return self._exit is not None and bool(self._exit.si_status)

    def signal(self, number: int) -> None:
        # Not by the Popen, which would reap it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

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
                rows = [row.split() for row in table.splitlines()]
                bound = {row[9] for row in rows if row[1:4:2] == [address, state]}
                # Who had the port before would take the connection, and not answer as the tool.
                if bound and bound & self._sockets():
                    return True
        return False

    def _sockets(self) -> set[str]:
        """Return the inodes of the process' sockets."""
        found = set()
        for entry in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                kind, _, inode = os.readlink(entry).partition(":")
                if kind == "socket":
                    found.add(inode.strip("[]"))
        return found

    @property
    def said_bytes(self) -> int:
        return os.fstat(self._output_fd).st_size

    def said(self) -> str:
        return os.pread(self._output_fd, self.said_bytes, 0).decode(errors="replace")

    def close(self) -> None:
        """End the process and forget what it said."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._output_fd)


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
        # What the listener has read and said before the flow; the flow's first sign of life.
        self._first_bytes = self._first_said_bytes = self._first_ns = 0
        self._texts, self._read_until = ("", ""), (0, 0)
        self._seen, self._is_seen_to_the_end = Seen(), False
        self._has_failed, self._arrived_bytes = False, 0

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
        else:
            has_ended, deadline_ns = self._connector.ended(), origin_ns + self.place.planned_ns
            self._look(now_ns)
            if self._connector.failed() or self._has_failed:
                self._end(RESET, now_ns)
            elif has_ended:
                self.end_ns = now_ns
                self._ask(FINISHED, now_ns)
            elif self._has_arrived() or now_ns >= deadline_ns + self._longest_ns:
                self._end(FINISHED, now_ns)

    def cut(self, now_ns: int) -> None:
        """Ask both processes to end and to report.

        Args:
            now_ns: The present (CLOCK_MONOTONIC).
        """
        if not self._asked_to_end:
            self._look(now_ns)
            self._end(CUT, now_ns)

    def live_bytes(self) -> tuple[int, int]:
        """Return about how many bytes were sent and received so far, as of the last `step`."""
        if not self.active:
            return 0, 0
        received = self._arrived_bytes
        sent = max(self._seen.written_bytes, received) if self.order.is_udp else received
        return sent, received

    def close(self) -> None:
        """Kill what still runs and read what was reported."""
        connector = self._connector
        if connector is not None:
            self.result = self._read_result(connector)
            connector.close()
        self._listener.close()
        self.outcome = self._asked_to_end or REFUSED
        has_nothing = not (self.result.received_bytes or self.order.is_udp)
        if self.outcome == RESET and not self.result.received_bytes:
            self.outcome = REFUSED
        elif self.outcome == FINISHED and has_nothing:
            self.outcome = REFUSED  # it still tried to connect when its time was over
        self.start_ns = max(self.end_ns - round(self.result.seconds * 1e9), self.start_ns)

    def _read_result(self, connector: _Process) -> Result:
        if not self._is_seen_to_the_end:
            self._look(self.end_ns)
        sender, receiver = self._sides((self._listener.said(), connector.said()))
        seen = replace(self._seen, sender=sender, receiver=receiver)
        result = self._tool.result(self.order, seen)
        if result is not None:
            return result
        received_bytes = self._tool.arrived_bytes(self.order, seen)
        return Result(received_bytes, max(seen.written_bytes, received_bytes), seen.seconds)

    def _begin(self, now_ns: int, planned_ns: int) -> None:
        if self._listener.ended() or now_ns > max(self._deadline_ns, planned_ns):
            self.start_ns = self.end_ns = now_ns
            self.close()
        elif now_ns >= planned_ns and self._listener.listens(self._address, self.order.port):
            self.start_ns = now_ns
            if not self._receiver_connects:
                self._first_bytes = self._listener.transferred("rchar")
                self._first_said_bytes = self._listener.said_bytes
            self._connector = _Process(self._connects_at, self._commands.connector)

    def _look(self, now_ns: int) -> None:
        """Note what can be seen of the run."""
        if self._connector is None:
            return
        sender, receiver = self._sides((self._listener, self._connector))
        said_bytes = sender.said_bytes, receiver.said_bytes
        is_new = said_bytes != self._read_until
        if is_new:
            self._texts, self._read_until = (sender.said(), receiver.said()), said_bytes
        read_bytes = receiver.transferred("rchar") - self._first_bytes
        read_bytes = max(read_bytes - self._tool.start_bytes(self.order), 0)
        written_bytes = read_bytes
        if self.order.is_udp:
            written_bytes = max(sender.transferred("wchar") - said_bytes[0], 0)
        if not self._first_ns and (read_bytes or said_bytes[1] > self._first_said_bytes):
            self._first_ns = now_ns
        seconds = (now_ns - (self._first_ns or now_ns)) / 1e9
        self._seen = Seen(*self._texts, read_bytes, written_bytes, seconds)
        # A log of minutes is long, and this is asked every tick.
        if is_new:
            self._has_failed = bool(self._tool.failure(self.order, self._seen))
        if is_new or read_bytes:
            self._arrived_bytes = self._tool.arrived_bytes(self.order, self._seen)

    def _has_arrived(self) -> bool:
        size_bytes = self.order.size_bytes
        if self._tool.keeps_size or size_bytes is None or self.order.is_udp:
            return False
        return self._arrived_bytes >= size_bytes

    def _end(self, outcome: int, now_ns: int) -> None:
        """Interrupt what would go on by itself; what it does from now on is not of the flow."""
        self.end_ns, self._is_seen_to_the_end = now_ns, True
        self._ask(outcome, now_ns)
        # One that waits for further connections is killed once its peer has ended.
        for process in (self._listener if self._tool.listener_ends else None, self._connector):
            if process is not None:
                process.signal(signal.SIGINT)

    def _ask(self, outcome: int, now_ns: int) -> None:
        self._asked_to_end = outcome
        self._deadline_ns = now_ns + ANSWER_DEADLINE_NS

    def _await_end(self, now_ns: int) -> None:
        is_over = self._connector is None or self._connector.ended()
        if self._tool.listener_ends:
            is_over &= self._listener.ended()
        elif is_over and not self._is_seen_to_the_end:
            self._look(self.end_ns)
            is_over = self._listener.ended() or self._tool.has_reported(self.order, self._seen)
        if is_over or now_ns > self._deadline_ns:
            self.close()

    def _sides(self, pair: tuple[_T, _T]) -> tuple[_T, _T]:
        """Return what belongs to listener and connector as that of sender and receiver."""
        return pair if self._receiver_connects else pair[::-1]
