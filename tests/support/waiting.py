"""Waiting for what must come, however late a busy machine lets it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["DEADLINE_S", "wait_for", "wait_until_empty"]

DEADLINE_S = 30.0
T = TypeVar("T")


def wait_for(
    look: Callable[[], T],
    timeout_s: float = DEADLINE_S,
    every_s: float = 0.002,
    what: str = "the condition",
) -> T:
    """Look until the answer is true, and return it; fail with the last answer otherwise.

    Args:
        look: What is waited for.
        timeout_s: Deadline. It only ends a wait for what never comes.
        every_s: Time between two looks. One at all processes of the machine takes a processor if
            it is asked for often.
        what: Named where it does not come.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (answer := look()):
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what} ({answer!r})"
        time.sleep(every_s)
    return answer


def wait_until_empty(
    look: Callable[[], object], timeout_s: float = DEADLINE_S, every_s: float = 0.2, what: str = ""
) -> None:
    """Look until nothing is there; fail with what is still there otherwise.

    Args:
        look: What there is.
        timeout_s: Deadline.
        every_s: Time between two looks.
        what: Named where it stays.
    """
    deadline_s = time.monotonic() + timeout_s
    while left := look():
        assert time.monotonic() < deadline_s, f"{what} after {timeout_s} s: {left}"
        time.sleep(every_s)
