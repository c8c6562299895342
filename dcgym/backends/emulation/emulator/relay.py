"""The process that holds the packets of delayed links, and the socket to command it."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Sequence

from dcgym.errors import BackendError
from dcgym.monitors.network.link_delays import delay_block_bytes
from dcgym.native import program_path

__all__ = ["Relay"]

DEADLINE_S = 10.0
REPLY_BYTES = 1 << 12


class Relay:
    """A running relay; it ends with this process.

    Args:
        n_links: Number of delayed directions, all of which `add` describes.

    Attributes:
        memory_fd: Shared memory that it counts in.

    Raises:
        BackendError: It does not start.
        FeatureNotSupported: It was not built.
    """

    def __init__(self, n_links: int) -> None:
        self._lock = threading.Lock()
        self.memory_fd = os.memfd_create("dcgym-relay", os.MFD_CLOEXEC)
        os.ftruncate(self.memory_fd, delay_block_bytes(n_links))
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(DEADLINE_S)
        with theirs:
            fds = (theirs.fileno(), self.memory_fd)
            program = str(program_path("dcgym-relay"))
            argv = [program, "--control-fd", str(fds[0]), "--shm-fd", str(fds[1])]
            self._process = subprocess.Popen(
                argv, pass_fds=fds, stdin=subprocess.DEVNULL, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Process identifier of the relay."""
        return self._process.pid

    def add(
        self, tap_fd: int, delay_ns: int, jitter_ns: int, loss_probability: float, most_bytes: int
    ) -> None:
        """Describe the next direction.

        Args:
            tap_fd: Where its packets come from and go back to; stays the caller's.
            delay_ns: How long each packet is held.
            jitter_ns: Most that is added, evenly from 0, in order.
            loss_probability: That a packet is dropped instead.
            most_bytes: Memory for packets.
        """
        loss = round(loss_probability * 2**32)
        self._request(f"link {delay_ns} {jitter_ns} {loss} {most_bytes}", tap_fd)

    def begin(self, seed: int) -> int:
        """Drop what is held, count from zero, let all links be up; returns what was dropped."""
        return int(self._request(f"begin {seed % 2**63}"))

    def flush(self) -> int:
        """Drop what is held, and return how many packets that was."""
        return int(self._request("flush"))

    def set_up(self, links: Sequence[int], is_up: bool) -> None:
        """Let links carry packets, or drop those that are due.

        Args:
            links: Numbers of the directions, in the order of `add`.
            is_up: Which of both.
        """
        if links:
            self._request(" ".join(["up" if is_up else "down", *map(str, links)]))

    def _request(self, message: str, *fds: int) -> str:
        # Events come by a thread of their own.
        with self._lock:
            try:
                socket.send_fds(self._socket, [message.encode()], fds)
                reply = self._socket.recv(REPLY_BYTES).decode()
            except OSError as error:
                raise BackendError(f"the relay of link delay is dead or hangs: {error}") from error
        if not reply.startswith("ok"):
            reason = reply.removeprefix("error ") or "it closed its socket"
            raise BackendError(f"the relay of link delay refused: {reason}")
        return reply.removeprefix("ok ")
