"""Sleeps to a deadline: a signal ends them whenever it comes, and whichever thread gets it."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

import pytest

from dcgym import native
from tests.support.signals import Stop

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(not native.available(), reason="_native is not built"),
]
HOUR_NS = 3600 * 10**9


def test_a_sleep_ends_by_a_signal_that_does_not_wake_it() -> None:
    """Another thread gets it, as one that comes just before the kernel lets this one sleep."""
    begins, ends = threading.Event(), threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if begins.is_set():
            raise Stop

    def send() -> None:
        begins.wait()
        while not ends.wait(0.05):
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        with pytest.raises(Stop):
            begins.set()
            native.require().wait_until(time.monotonic_ns() + HOUR_NS)
    finally:
        begins.clear()
        ends.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_sleep_of_several_looks_ends_at_its_deadline() -> None:
    deadline_ns = time.monotonic_ns() + 170_000_000
    late_ns = native.require().wait_until(deadline_ns)
    assert 0 <= late_ns <= time.monotonic_ns() - deadline_ns
