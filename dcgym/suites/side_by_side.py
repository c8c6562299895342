"""Pieces of work done side by side, each in a thread that waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from dcgym.suites.faults import is_full

__all__ = ["work_off"]


def work_off(work: Iterator[Callable[[], None]], jobs: int) -> None:
    """Do all work, and raise the first failure at the end, so that the others finish.

    Args:
        work: What is done; the next is asked for when it can begin.
        jobs: How many are done at a time; 0 does one after the other in this thread.

    Raises:
        OSError: The disk has no room, at once: what goes on could not be written either.
    """
    if jobs == 0:
        for one in work:
            one()
        return
    taking, is_over, failures = threading.Lock(), threading.Event(), list[Exception]()

    def do_next() -> None:
        while True:
            with taking:
                one = None if is_over.is_set() else next(work, None)
            if one is None:
                return
            try:
                one()
            except Exception as error:
                if is_full(error):
                    raise
                failures.append(error)

    pool = ThreadPoolExecutor(jobs)
    try:
        done, _ = wait([pool.submit(do_next) for _ in range(jobs)], None, FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        # After Ctrl-C the threads are still waiting for what they do.
        is_over.set()
        pool.shutdown(wait=False)
    if failures:
        raise failures[0]
