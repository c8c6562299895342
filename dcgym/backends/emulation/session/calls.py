"""Requests to an emulator, of any number of threads at once."""

from __future__ import annotations

import itertools
import threading
import time

from dcgym.backends.emulation.wire.channel import Channel, Frame
from dcgym.backends.emulation.wire.message import Message
from dcgym.errors import BackendError

__all__ = ["Calls"]


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
        self._answers: dict[int, Frame | None] = {}
        # Number of the one that reads; 0 if nobody does.
        self._reader = 0
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)

    def call(self, request: Message, deadline: float) -> Message:
        """Send a request and return its answer, whose descriptors are the caller's from now on.

        An answer that comes after its deadline is dropped.

        Args:
            request: The request; its descriptors stay the caller's.
            deadline: time.monotonic() by which the answer must have come.

        Raises:
            BackendError: Deadline passed, or the emulator is gone or closed.
        """
        number = next(self._numbers)
        self._answers[number] = None
        try:
            self._channel.send(request, number, deadline)
            self._await(number, deadline)
        except BaseException:
            if frame := self._take(number):
                frame.drop()
            raise
        answer = self._take(number)
        assert answer is not None
        return answer.message()

    def _take(self, number: int) -> Frame | None:
        with self._lock:
            return self._answers.pop(number)

    def _await(self, number: int, deadline: float) -> None:
        """Wait for an answer, by one's own reading or another thread's."""
        try:
            with self._lock:
                while self._reader and not self._answers[number]:
                    if not self._turn.wait(max(0.0, deadline - time.monotonic())):
                        raise BackendError("the emulator did not answer within its deadline")
                if self._answers[number]:
                    return
                self._reader = number
            self._read_until(number, deadline)
        finally:
            with self._lock:
                if self._reader == number:
                    self._reader = 0
                    if len(self._answers) > 1:
                        self._turn.notify_all()

    def _read_until(self, number: int, deadline: float) -> None:
        """Read for all who wait, until the answer of this number has come."""
        while True:
            try:
                self._hand_out(number)
            except BaseException:
                # Ctrl-C, between a frame that was taken and its owner.
                self._channel.cut_off()
                raise
            if self._answers[number]:
                return
            self._channel.read(deadline)

    def _hand_out(self, reader: int) -> None:
        while (frame := self._channel.take()) is not None:
            with self._lock:
                if frame.number not in self._answers:
                    frame.drop()
                    continue
                self._answers[frame.number] = frame
                if frame.number != reader:
                    self._turn.notify_all()
