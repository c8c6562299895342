"""The memory of processes, each page once."""

from __future__ import annotations

import subprocess
import sys

from dcgym.processes import memory_of
from tests.support.waiting import wait_for

HELD_BYTES = 64 * 2**20
# An interpreter takes some tens of megabytes besides.
SPARE_BYTES = 48 * 2**20
# Holds some memory, shares it with a child, says both numbers, and ends with standard input.
SHARING = f"""
import os, sys
held = bytearray(b"1") * {HELD_BYTES}
reads, writes = os.pipe()
child = os.fork()
if child == 0:
    os.close(writes)
    os.read(reads, 1)
    os._exit(0)
print(os.getpid(), child, flush=True)
sys.stdin.read()
"""


def test_a_page_that_two_processes_share_counts_once() -> None:
    sharing = subprocess.Popen(
        [sys.executable, "-c", SHARING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert sharing.stdin is not None and sharing.stdout is not None
    both = [int(word) for word in sharing.stdout.readline().split()]
    assert HELD_BYTES < memory_of(both, 0) < HELD_BYTES + SPARE_BYTES
    # Where that is enough anyway, the sum that takes less time will do.
    assert 2 * HELD_BYTES < memory_of(both, 2**40) < 2 * (HELD_BYTES + SPARE_BYTES)
    sharing.communicate()
    wait_for(lambda: memory_of(both, 0) == 0, what="the end of both")
