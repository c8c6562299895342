"""Messages between an environment and its emulator, with descriptors, with deadlines.

A frame is its number, bytes of JSON, number of descriptors, the JSON, then the descriptors in
batches, each carried by one byte: the kernel passes at most 253 in one message (unix(7)). An answer
has the number of its request.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import socket
import struct
import threading
import time
from typing import NamedTuple

from dcgym.backends.emulation.wire.message import Message, pack, unpack
from dcgym.errors import BackendError

__all__ = ["CUT_OFF", "Channel", "Frame"]

CUT_OFF = "a message on the command channel was cut off midway: no other can follow"

_HEAD = struct.Struct("<QII")
_BATCH = 200
_MOST_BYTES = 64 << 20
# Nearly every frame comes in one piece.
_PIECE_BYTES = 1 << 16
_RIGHTS_BYTES = socket.CMSG_SPACE(_BATCH * array.array("i").itemsize)


class Frame(NamedTuple):
    """A message as it came.

    Attributes:
        number: That of the request that it is, or answers.
        body: Its JSON.
        fds: Its descriptors.
    """

    number: int
    body: bytes
    fds: list[int]

    def message(self) -> Message:
        """Return the message, whose descriptors are the caller's from now on.

        Raises:
            BackendError: There is no such message.
        """
        try:
            return unpack(json.loads(self.body), self.fds)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Close the descriptors of a message that nobody wants."""
        for fd in self.fds:
            os.close(fd)


class Channel:
    """One end of the command channel; owns its socket.

    Any number of threads may send at once, one may receive, and any may close it.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        # Not select(2): it takes no descriptor above 1023, and a large network has more.
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(sock, select.POLLIN)
        self._writable.register(sock, select.POLLOUT)
        self._end = ""
        self._sending = threading.Lock()
        # A handler of signals may close it amid a call of its own thread.
        self._counting = threading.RLock()
        self._users, self._is_closed = 0, False
        # What has come of frames that are not whole yet, whoever waited for it.
        self._bytes = bytearray()
        self._fds: list[int] = []

    def send(self, message: Message, number: int = 0, deadline: float | None = None) -> None:
        """Send a message and its descriptors.

        Args:
            message: The message.
            number: Its number.
            deadline: time.monotonic() by which it must be taken; None waits for ever.

        Raises:
            BackendError: The other end takes nothing any more, or is gone. If it took a part of
                the message, the channel has ended for all.
        """
        content, fds = pack(message)
        body = json.dumps(content).encode()
        head = _HEAD.pack(number, len(body), len(fds))
        left_s = -1 if deadline is None else max(0.0, deadline - time.monotonic())
        self._enter()
        try:
            if not self._sending.acquire(timeout=left_s):
                raise BackendError("the emulator does not take commands any more")
            try:
                self._send_frame(head + body, fds, deadline)
            finally:
                self._sending.release()
        finally:
            self._leave()

    def _send_frame(self, text: bytes, fds: list[int], deadline: float | None) -> None:
        left, is_untouched = memoryview(text), True
        try:
            while left:
                left = left[self._attempt_send(left, [], deadline) :]
                is_untouched = False
            for first in range(0, len(fds), _BATCH):
                self._attempt_send(b"F", fds[first : first + _BATCH], deadline)
        except TimeoutError:
            if is_untouched:
                raise BackendError("the emulator does not take commands any more") from None
            self.cut_off()
            raise BackendError(CUT_OFF) from None
        except OSError as error:
            # It need not be gone: a descriptor of the message may be closed.
            self._shut_down(f"the emulator is gone ({error.strerror})")
            raise BackendError(self._end) from None
        except BaseException:
            # Ctrl-C: whether something was sent is not known.
            self.cut_off()
            raise

    def _attempt_send(
        self, data: bytes | memoryview, fds: list[int], deadline: float | None
    ) -> int:
        while True:
            try:
                if fds:
                    return socket.send_fds(self._socket, [data], fds)
                return self._socket.send(data)
            except BlockingIOError:
                _wait(self._writable, deadline)

    def receive(self, deadline: float | None = None) -> Frame:
        """Receive a message and its descriptors, which are the caller's from now on.

        What has come of a message by its deadline is the beginning of what the next call receives.

        Args:
            deadline: time.monotonic() by which it must have come; None waits for ever.

        Raises:
            BackendError: Deadline passed, or the other end is gone.
        """
        while (frame := self.take()) is None:
            self.read(deadline)
        return frame

    def read(self, deadline: float | None) -> None:
        """Wait until something comes, and read it for `take`.

        Args:
            deadline: time.monotonic() by which it must have come; None waits for ever.

        Raises:
            BackendError: Deadline passed, or the other end is gone, or this one is closed.
        """
        self._enter()
        try:
            _wait(self._readable, deadline)
            self._read_piece()
        except TimeoutError:
            raise BackendError("the emulator did not answer within its deadline") from None
        except BlockingIOError:
            pass  # poll(2) may be wrong.
        except OSError as error:
            raise self._gone(error.strerror) from None
        finally:
            self._leave()

    def _read_piece(self) -> None:
        try:
            data, rights, _, _ = self._socket.recvmsg(_PIECE_BYTES, _RIGHTS_BYTES)
            for _, _, fds in rights:
                self._fds += array.array("i", fds)
            self._bytes += data
        except OSError:
            raise
        except BaseException:
            # Ctrl-C, between what was read and what was kept of it.
            self.cut_off()
            raise
        if not data:
            raise self._gone("end of the command channel")

    def take(self) -> Frame | None:
        """Return the next frame that was read whole, if there is one.

        Raises:
            BackendError: The frame is too large.
        """
        if len(self._bytes) < _HEAD.size:
            return None
        number, size, n_fds = _HEAD.unpack_from(self._bytes)
        if size > _MOST_BYTES:
            raise BackendError(f"a frame of {size} bytes on the command channel")
        end = _HEAD.size + size
        total = end + -(-n_fds // _BATCH)
        if len(self._bytes) < total:
            return None
        frame = Frame(number, bytes(self._bytes[_HEAD.size : end]), self._fds[:n_fds])
        del self._bytes[:total], self._fds[:n_fds]
        return frame

    def cut_off(self) -> None:
        """End the channel for all, at both ends: what crosses it is out of step."""
        self._shut_down(CUT_OFF)

    def close(self) -> None:
        """End the channel; a second call does nothing.

        Threads that use it wake up at once. The last of them closes the socket: its number might be
        another descriptor's by the time that they look at it.
        """
        self._shut_down("the emulator is closed")
        with self._counting:
            self._is_closed = True
            self._close_unused()

    def let_go(self) -> None:
        """Close what a fork has inherited. The channel goes on, as that of the parent.

        Threads of the parent use nothing here, whatever they held at the fork.
        """
        self._end = self._end or "the emulator is closed"
        self._counting, self._users, self._is_closed = threading.RLock(), 0, True
        self._close_unused()

    def _enter(self) -> None:
        """Keep the socket from being closed until `_leave`."""
        with self._counting:
            if self._end:
                raise BackendError(self._end)
            self._users += 1

    def _leave(self) -> None:
        with self._counting:
            self._users -= 1
            if self._is_closed:
                self._close_unused()

    def _close_unused(self) -> None:
        if not self._users:
            self._socket.close()
            while self._fds:
                os.close(self._fds.pop())

    def _shut_down(self, end: str) -> None:
        with self._counting, contextlib.suppress(OSError):
            self._end = self._end or end
            self._socket.shutdown(socket.SHUT_RDWR)

    def _gone(self, reason: str | None) -> BackendError:
        return BackendError(self._end or f"the emulator is gone ({reason})")


def _wait(ready: select.poll, deadline: float | None) -> None:
    left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
    if not ready.poll(None if left_s is None else left_s * 1000):
        raise TimeoutError
