"""Requests to an emulator, of any number of threads at once."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from typing import TypeAlias

from dcgym.backends.emulation.wire.channel import Channel, Frame
from dcgym.backends.emulation.wire.message import Message
from dcgym.errors import BackendError

__all__ = ["Calls"]

# Ctrl-C may hit the thread that reads before it has woken those that wait.
LOOK_S = 0.2

# An answer, or None: somebody must read. In C, where Ctrl-C divides no step; conditions are not.
_Inbox: TypeAlias = "queue.SimpleQueue[Frame | None]"


class Calls:
    """The environment's side of the command channel: each caller gets the answer to its request.

    Of the threads that wait, one reads for all, and hands the others what is theirs. Another takes
    over once it has its own answer or gives up. So a thread that is alone reads for itself, and no
    other one need run between a request and its answer.

    Args:
        channel: The channel; stays the caller's.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = itertools.count(1)
        # Of those that wait, by number.
        self._waiting: dict[int, _Inbox] = {}
        # Number of the one that reads, for as long as it waits.
        self._reader = 0
        self._lock = threading.Lock()

    def call(self, request: Message, deadline: float) -> Message:
        """Send a request and return its answer, whose descriptors are the caller's from now on.

        An answer that comes after its deadline is dropped.

        Args:
            request: The request; its descriptors stay the caller's.
            deadline: time.monotonic() by which the answer must have come.

        Raises:
            BackendError: Deadline passed, or the emulator is gone or closed.
        """
        number, inbox = next(self._numbers), queue.SimpleQueue[Frame | None]()
        self._waiting[number] = inbox
        try:
            self._channel.send(request, number, deadline)
            answer = self._await(number, inbox, deadline)
        finally:
            # First and in one step: this ends its reading too.
            del self._waiting[number]
            self._leave(number, inbox)
        return answer.message()

    def _leave(self, number: int, inbox: _Inbox) -> None:
        if self._reader == number:
            for other in list(self._waiting.values()):
                other.put(None)
        with self._lock:
            while not inbox.empty():
                if (frame := inbox.get()) is not None:
                    frame.drop()

    def _await(self, number: int, inbox: _Inbox, deadline: float) -> Frame:
        """Wait for an answer, by one's own reading or another thread's."""
        while True:
            with self._lock:
                if self._reader not in self._waiting:
                    self._reader = number
            if self._reader == number:
                return self._read(inbox, deadline)
            left_s = max(0.0, deadline - time.monotonic())
            with contextlib.suppress(queue.Empty):
                if (frame := inbox.get(timeout=min(left_s, LOOK_S))) is not None:
                    return frame
            if not left_s:
                raise BackendError("the emulator did not answer within its deadline")

    def _read(self, inbox: _Inbox, deadline: float) -> Frame:
        """Read for all who wait, until one's own answer has come."""
        while True:
            try:
                self._hand_out()
            except BaseException:
                # Ctrl-C, between a frame that was taken and its owner.
                self._channel.cut_off()
                raise
            while not inbox.empty():
                if (frame := inbox.get()) is not None:
                    return frame
            self._channel.read(deadline)

    def _hand_out(self) -> None:
        while (frame := self._channel.take()) is not None:
            with self._lock:
                if inbox := self._waiting.get(frame.number):
                    inbox.put(frame)
                else:
                    frame.drop()
