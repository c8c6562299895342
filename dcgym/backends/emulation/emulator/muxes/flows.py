"""Flows of small requests to VIPs; every answer names the server that the request reached."""

from __future__ import annotations

import functools
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dcgym.backends.records import Record
from dcgym.errors import BackendError
from dcgym.traffic.generators.host_spaces import join_namespace

__all__ = ["BACKLOG", "FlowCheck", "FlowServers", "connect", "within"]

_T = TypeVar("_T")

REQUEST = struct.Struct("<Q")  # sequence number
ANSWER = struct.Struct("<QI")  # and the server's host number
CONNECT_DEADLINE_S = 5.0
SELECT_S = 0.05
# For answers that are on their way when the last request has left.
LAST_ANSWERS_S = 2.0
BACKLOG = 1024


def within(namespace_fd: int, body: Callable[[], _T]) -> _T:
    """Call a function in a network namespace, by a thread of its own; sockets stay there.

    Args:
        namespace_fd: The namespace.
        body: The function.

    Raises:
        OSError: The namespace cannot be entered, or the function failed.
    """
    results: list[_T] = []
    errors: list[OSError] = []

    def call() -> None:
        try:
            join_namespace(namespace_fd)
            results.append(body())
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


class FlowServers:
    """Answers requests at all servers, by TCP and UDP, from the address that they came to.

    Args:
        places: Host number, namespace and VIPs' addresses of each server.
        port: Where they listen.
    """

    def __init__(self, places: Sequence[tuple[int, int, Sequence[str]]], port: int) -> None:
        self._selector = selectors.DefaultSelector()
        for number, namespace_fd, addresses in places:
            for address in addresses:
                within(namespace_fd, functools.partial(self._listen, number, address, port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _listen(self, number: int, address: str, port: int) -> None:
        listener = socket.create_server((address, port), backlog=BACKLOG)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind((address, port))
        self._register(listener, lambda: self._accept(listener, number))
        self._register(datagrams, lambda: _answer_datagram(datagrams, number))

    def _register(self, sock: socket.socket, act: Callable[[], None]) -> None:
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ, act)

    def _accept(self, listener: socket.socket, number: int) -> None:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._register(connection, lambda: self._answer(connection, number))

    def _answer(self, connection: socket.socket, number: int) -> None:
        try:
            # A request is a segment of its own, and never in two.
            data = connection.recv(REQUEST.size)
            if data:
                connection.sendall(ANSWER.pack(*REQUEST.unpack(data), number))
        except (OSError, struct.error):
            data = b""
        if not data:
            self._selector.unregister(connection)
            connection.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                key.data()


def _answer_datagram(datagrams: socket.socket, number: int) -> None:
    data, client = datagrams.recvfrom(REQUEST.size)
    datagrams.sendto(ANSWER.pack(*REQUEST.unpack(data), number), client)


@dataclass
class _Flow:
    """A flow at its client."""

    client: str
    vip: int
    transport: str
    sock: socket.socket
    sent_ns: list[int] = field(default_factory=list)
    answers: dict[int, tuple[int, int]] = field(default_factory=dict)  # time, server
    error: str = ""
    rest: bytes = b""

    @property
    def is_waiting(self) -> bool:
        """Whether the last request may still be answered."""
        return not self.error and len(self.sent_ns) - 1 not in self.answers

    def send(self) -> None:
        """Send the next request."""
        if self.error:
            return
        try:
            self.sock.send(REQUEST.pack(len(self.sent_ns)))
        except OSError as error:
            self.fail(error)
        self.sent_ns.append(time.monotonic_ns())

    def fail(self, error: OSError) -> None:
        """Note that a connection has broken; a datagram that could not be sent is a lost one."""
        if self.transport == "tcp":
            self.error = error.strerror or str(error)

    def receive(self) -> None:
        """Take the answers that have come."""
        try:
            data = self.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(error)
            return
        if not data and self.transport == "tcp":
            self.error = self.error or "closed by the server"
        data = self.rest + data
        now_ns = time.monotonic_ns()
        whole = len(data) // ANSWER.size * ANSWER.size
        self.rest = data[whole:]
        for sequence, server in ANSWER.iter_unpack(data[:whole]):
            self.answers.setdefault(sequence, (now_ns, server))

    def record(self, names: Mapping[int, str]) -> Record:
        """Return what became of it; servers in the order in which they first answered."""
        order = sorted(self.answers)
        changes: list[list[object]] = []
        for sequence in order:
            at_ns, server = self.answers[sequence]
            if not changes or changes[-1][0] != names[server]:
                changes.append([names[server], at_ns])
        lost = [at for n, at in enumerate(self.sent_ns) if n not in self.answers]
        return {
            "client": self.client,
            "vip": self.vip,
            "transport": self.transport,
            "sent": len(self.sent_ns),
            "answered": len(self.answers),
            "servers": changes,
            "lost_ns": lost,
            "error": self.error,
        }


class FlowCheck:
    """Open flows, and a thread that sends their requests and takes the answers.

    Args:
        flows: Client, its namespace, VIP, its address and transport of each.
        port: Where servers listen.
        interval_s: From one request of a flow to its next.

    Raises:
        BackendError: A connection could not be opened.
    """

    def __init__(
        self, flows: Sequence[tuple[str, int, int, str, str]], port: int, interval_s: float
    ) -> None:
        self._interval_ns = round(interval_s * 1e9)
        self._flows = []
        self._selector = selectors.DefaultSelector()
        for client, namespace_fd, vip, address, transport in flows:
            sock = connect(namespace_fd, address, port, transport)
            flow = _Flow(client, vip, transport, sock)
            self._selector.register(sock, selectors.EVENT_READ, flow)
            self._flows.append(flow)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Send round by round, each flow at its place in the round."""
        began_ns = time.monotonic_ns()
        step_ns = self._interval_ns / max(len(self._flows), 1)
        turn = 0
        while not self._stopping.is_set():
            due_ns = began_ns + turn * step_ns
            if time.monotonic_ns() >= due_ns:
                self._flows[turn % len(self._flows)].send()
                turn += 1
            self._receive(max(due_ns - time.monotonic_ns(), 0) / 1e9)
        end = time.monotonic() + LAST_ANSWERS_S
        while time.monotonic() < end and any(flow.is_waiting for flow in self._flows):
            self._receive(SELECT_S)

    def _receive(self, wait_s: float) -> None:
        for key, _ in self._selector.select(min(wait_s, SELECT_S)):
            flow: _Flow = key.data
            flow.receive()
            if flow.error:
                self._selector.unregister(flow.sock)

    def stop(self, names: Mapping[int, str]) -> list[Record]:
        """End the flows and return one record each.

        Args:
            names: Name of the server by host number.
        """
        self._stopping.set()
        self._thread.join()
        for flow in self._flows:
            flow.sock.close()
        self._selector.close()
        return [flow.record(names) for flow in self._flows]


def connect(namespace_fd: int, address: str, port: int, transport: str) -> socket.socket:
    """Return a connected socket that does not block.

    Args:
        namespace_fd: The client's namespace.
        address: Where to.
        port: Where to.
        transport: "tcp" or "udp".

    Raises:
        BackendError: Nobody answers.
    """
    kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
    sock = within(namespace_fd, lambda: socket.socket(socket.AF_INET, kind))
    sock.settimeout(CONNECT_DEADLINE_S)
    try:
        sock.connect((address, port))
    except OSError as error:
        raise BackendError(f"no connection to {address}:{port}: {error}") from None
    if transport == "tcp":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock
