"""A process of real-time priority that asks for timers, and adds up how late they come.

`tests.support.machine` starts it as a program of its own, which imports nothing that is slow.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from contextlib import suppress

PERIOD_NS = 1_000_000
# The kernel's handling of packets delays a timer as much, and no bucket or pacer minds.
USUAL_NS = 500_000


def main(fd: int, parent: int) -> None:
    """Add up lateness (ns) in a shared page, until the parent has ended."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    shared = mmap.mmap(fd, mmap.PAGESIZE)
    late_ns = 0
    while os.getppid() == parent:
        due_ns = time.monotonic_ns() + PERIOD_NS
        time.sleep(PERIOD_NS / 1e9)
        late_ns += max(time.monotonic_ns() - due_ns - USUAL_NS, 0)
        struct.pack_into("q", shared, 0, late_ns)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
