"""usage: half_closed.py ADDRESS PORT CONNECTIONS BYTES: say all, close, then wait for answers."""

from __future__ import annotations

import socket
import sys
from concurrent.futures import ThreadPoolExecutor

SERVICE_US = 3_000_000


def ask(address: str, port: int, body_bytes: int) -> int:
    """Return the length of the body that comes after our own end."""
    target = f"/work?cpu_us={SERVICE_US}&bytes={body_bytes}"
    with socket.create_connection((address, port), timeout=10) as connection:
        connection.settimeout(30)
        request = f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return len(answer.partition(b"\r\n\r\n")[2])


def main(address: str, port: int, connections: int, body_bytes: int) -> None:
    """Print the length of each answer's body."""
    with ThreadPoolExecutor(connections) as pool:
        for length in pool.map(lambda _: ask(address, port, body_bytes), range(connections)):
            print(length)


main(sys.argv[1], *map(int, sys.argv[2:5]))
