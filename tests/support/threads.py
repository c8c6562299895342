"""What tests let run beside themselves."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Generic, TypeVar

from tests.support.waiting import DEADLINE_S, wait_for

__all__ = ["Beside", "HeldCommand"]

# It only ends a command that its test does not.
LIMIT_S = 150.0

T = TypeVar("T")


class Beside(Generic[T]):
    """A function that runs in a thread of its own from now on; nobody waits for one that hangs.

    Args:
        body: The function.
    """

    def __init__(self, body: Callable[[], T]) -> None:
        self._body = body
        self._future: Future[T] = Future()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._future.set_result(self._body())
        except BaseException as error:
            self._future.set_exception(error)

    @property
    def is_done(self) -> bool:
        """Whether it has returned or failed."""
        return self._future.done()

    def result(self, timeout_s: float = DEADLINE_S) -> T:
        """Wait for what it returns.

        Args:
            timeout_s: How long to wait.

        Raises:
            TimeoutError: It has not ended.
        """
        return self._future.result(timeout_s)


class HeldCommand:
    """A command in an emulated host that runs until the test ends it, and prints what it is told.

    Args:
        execute: `execute` of the backend.
        host: Name of the host.
        path: Where to make the pipe (fifo(7)) that it waits for; nothing may be there.
    """

    def __init__(self, execute: Callable[..., str], host: str, path: Path) -> None:
        os.mkfifo(path)
        self._asked = Beside(lambda: execute(host, "cat", str(path), timeout_s=LIMIT_S))
        self._writable = wait_for(lambda: self._opened(path), what="a command that runs")

    def _opened(self, path: Path) -> int:
        """Return the writing end of the pipe; 0 while nobody reads it."""
        assert self.is_running, self._asked.result()
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            assert error.errno == errno.ENXIO
            return 0

    @property
    def is_running(self) -> bool:
        """Whether `execute` has not returned."""
        return not self._asked.is_done

    def end(self, text: str) -> str:
        """Let the command print this and end; return what `execute` does."""
        os.write(self._writable, text.encode())
        os.close(self._writable)
        return self._asked.result()

    def result(self) -> str:
        """Return what `execute` does of a command that something else ends."""
        try:
            return self._asked.result()
        finally:
            os.close(self._writable)
