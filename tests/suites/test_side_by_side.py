"""Work done side by side: what is begun, and what is not after a failure."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator

import pytest

from dcgym.suites.side_by_side import work_off

DEADLINE_S = 60.0


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_all_is_done_and_asked_for_when_it_can_begin(jobs: int) -> None:
    asked, done, ahead = [0], list[int](), list[int]()

    def work() -> Iterator[Callable[[], None]]:
        for number in range(20):
            asked[0] += 1
            ahead.append(asked[0] - len(done))
            yield lambda number=number: done.append(number)

    work_off(work(), jobs)
    assert sorted(done) == [*range(20)]
    assert max(ahead) <= max(1, jobs)


def test_the_others_finish_after_a_failure_and_it_is_raised() -> None:
    done = list[int]()

    def fail() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        work_off(iter([fail, *[lambda: done.append(1)] * 5]), 2)
    assert len(done) == 5


def test_nothing_more_begins_once_the_disk_is_full() -> None:
    begun, full = threading.Event(), threading.Event()
    late = list[int]()

    def wait() -> None:
        begun.set()
        assert full.wait(DEADLINE_S)

    def fill() -> None:
        assert begun.wait(DEADLINE_S)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        work_off(iter([wait, fill, *[lambda: late.append(1)] * 5]), 2)
    before = threading.active_count()
    full.set()
    # The other thread ends with what it does.
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(DEADLINE_S)
    assert late == []
    assert threading.active_count() < before
