"""Connections that send as much as the network takes, counted where they arrive."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from dcgym.backends.emulation.emulator.muxes.flows import BACKLOG, connect, within
from dcgym.backends.records import Record

__all__ = ["StreamServers", "Streams"]

CHUNK_BYTES = 1 << 16
# Less than a fast link carries meanwhile: what a sender has queued is not under way for long.
SEND_BUFFER_BYTES = 1 << 17
ACCEPT_DEADLINE_S = 5.0


@dataclass
class _Arrived:
    """What a server has received of a connection."""

    server: str
    bytes: int = 0


class StreamServers:
    """Takes in what comes, at every server and at all addresses of it.

    Args:
        places: Name and namespace of each server.
        port: Where they listen.
    """

    def __init__(self, places: Sequence[tuple[str, int]], port: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._changed = threading.Condition()
        # By the client's end, which no two connections to a port of an address share.
        self._arrived: dict[tuple[str, int], _Arrived] = {}
        for name, namespace_fd in places:
            listener = within(
                namespace_fd, lambda: socket.create_server(("", port), backlog=BACKLOG)
            )
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, name)
        self._buffer = bytearray(CHUNK_BYTES)
        threading.Thread(target=self._serve, daemon=True).start()

    def arrived(self, client_end: tuple[str, int]) -> _Arrived:
        """Return what has arrived of a connection, and where.

        Args:
            client_end: Address and port of its client.

        Raises:
            TimeoutError: No server has accepted it in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: client_end in self._arrived, ACCEPT_DEADLINE_S):
                raise TimeoutError(f"no server has accepted the connection of {client_end}")
            return self._arrived[client_end]

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if isinstance(key.data, str):
                    self._accept(sock, key.data)
                else:
                    self._receive(sock, key.data)

    def _accept(self, listener: socket.socket, server: str) -> None:
        connection, client_end = listener.accept()
        connection.setblocking(False)
        arrived = _Arrived(server)
        with self._changed:
            self._arrived[client_end] = arrived
            self._changed.notify_all()
        self._selector.register(connection, selectors.EVENT_READ, arrived)

    def _receive(self, connection: socket.socket, arrived: _Arrived) -> None:
        try:
            count = connection.recv_into(self._buffer)
        except OSError:
            count = 0
        arrived.bytes += count
        if not count:
            self._selector.unregister(connection)
            connection.close()


class Streams:
    """Opens connections, and keeps all of them sending.

    Args:
        servers: Where they end.
        port: Where the servers listen.
    """

    def __init__(self, servers: StreamServers, port: int) -> None:
        self._servers, self._port = servers, port
        self._opened: list[tuple[str, int | str, _Arrived]] = []
        self._selector = selectors.DefaultSelector()
        self._chunk = bytes(CHUNK_BYTES)
        self._thread: threading.Thread | None = None

    def open(self, client: str, namespace_fd: int, to: int | str, address: str) -> None:
        """Open a connection.

        Args:
            client: Name of the client.
            namespace_fd: Its namespace.
            to: VIP or name of a server.
            address: Its address.

        Raises:
            BackendError: It could not be opened.
        """
        sock = connect(namespace_fd, address, self._port, "tcp")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._opened.append((client, to, self._servers.arrived(sock.getsockname())))
        self._selector.register(sock, selectors.EVENT_WRITE)
        if self._thread is None:
            self._thread = threading.Thread(target=self._send, daemon=True)
            self._thread.start()

    def read(self) -> list[Record]:
        """Return what has arrived of each stream so far."""
        return [
            {
                "client": client,
                "to": to,
                "server": arrived.server,
                "bytes": arrived.bytes,
                "read_ns": time.monotonic_ns(),
            }
            for client, to, arrived in self._opened
        ]

    def _send(self) -> None:
        while True:
            for key, _ in self._selector.select(1.0):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                try:
                    sock.send(self._chunk)
                except BlockingIOError:
                    continue
                except OSError:
                    # Its server has left the VIP: what has arrived so far stays counted.
                    self._selector.unregister(sock)
                    sock.close()
