"""Messages between an environment and its emulator, with descriptors, with deadlines.

A frame is two 32-bit words (bytes of JSON, number of descriptors), the JSON, then the descriptors
in batches, each carried by one byte: the kernel passes at most 253 in one message (unix(7)).
"""

from __future__ import annotations

import functools
import json
import socket
import struct
import time
from collections.abc import Callable
from typing import TypeVar

from dcgym.backends.emulation.wire.message import Message, pack, unpack
from dcgym.errors import BackendError

__all__ = ["Channel"]

_HEAD = struct.Struct("<II")
_BATCH = 200
_MOST_BYTES = 64 << 20

_Result = TypeVar("_Result")


class Channel:
    """One end of the command channel; owns its socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def send(self, message: Message) -> None:
        """Send a message and its descriptors.

        Raises:
            BackendError: The other end takes nothing any more, or is gone.
        """
        content, fds = pack(message)
        body = json.dumps(content).encode()
        try:
            self.socket.sendall(_HEAD.pack(len(body), len(fds)) + body)
            for first in range(0, len(fds), _BATCH):
                socket.send_fds(self.socket, [b"F"], fds[first : first + _BATCH])
        except TimeoutError:
            raise BackendError("the emulator does not take commands any more") from None
        except OSError as error:
            raise BackendError(f"the emulator is gone ({error.strerror})") from None

    def receive(self, deadline: float | None = None) -> Message:
        """Receive a message and its descriptors, which are the caller's from now on.

        Args:
            deadline: time.monotonic() by which it must have come; None waits for ever.

        Raises:
            BackendError: Deadline passed, or the other end is gone.
        """
        size, n_fds = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if size > _MOST_BYTES:
            raise BackendError(f"a frame of {size} bytes on the command channel")
        content = json.loads(self._exactly(size, deadline))
        fds: list[int] = []
        while len(fds) < n_fds:
            self._set_timeout(deadline)
            data, batch, _, _ = self._guard(lambda: socket.recv_fds(self.socket, 1, _BATCH))
            if not data:
                raise BackendError("the emulator is gone (end of the command channel)")
            fds += batch
        return unpack(content, fds)

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self.socket.close()

    def _exactly(self, size: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._set_timeout(deadline)
            left = size - len(parts)
            part = self._guard(functools.partial(self.socket.recv, left))
            if not part:
                raise BackendError("the emulator is gone (end of the command channel)")
            parts += part
        return bytes(parts)

    def _set_timeout(self, deadline: float | None) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise BackendError("the emulator did not answer within its deadline")
        self.socket.settimeout(left)

    @staticmethod
    def _guard(call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except TimeoutError:
            raise BackendError("the emulator did not answer within its deadline") from None
        except OSError as error:
            raise BackendError(f"the emulator is gone ({error.strerror})") from None
