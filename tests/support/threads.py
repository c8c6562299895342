"""What tests let run beside themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from tests.support.waiting import DEADLINE_S

__all__ = ["Beside"]

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
