"""Torn reads: pools replaced as fast as a process can, while others decide by them.

Twenty-four million decisions here, some ten seconds; `make soak` asks for a billion
(DCGYM_SOAK_READS).
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from dcgym.native import require
from dcgym.tasks.balancing.rules import RULES
from tests.support.l4lb_rig import HOUR_NS, Packet, Rig

pytestmark = pytest.mark.native
READS = int(os.environ.get("DCGYM_SOAK_READS", 24_000_000))
READERS, BATCH = 3, 10_000
# The heaviest server is 31 of one and 32 of the other; of a mixture it is another.
POOLS = [
    (RULES["weighted"].number, list(range(32)), [1.0] * 31 + [1000.0]),
    (RULES["sed"].number, list(range(32, 64)), [1000.0] + [1.0] * 31),
]


def replace_for_ever(region_map_fd: int) -> None:
    writer = require().BalancerPools(region_map_fd, 1)
    while True:
        for pool in POOLS:
            writer.replace(0, *pool)


def decide(rig: Rig, reader: int) -> None:
    frame = Packet(port=1024 + reader).frame()
    for _ in range(READS // READERS // BATCH):
        rig.native.time_select(frame, BATCH)


def look(rig: Rig, first: int) -> None:
    """Copy pools from the other side, as policies do, while at least 1000 are published."""
    deadline = time.monotonic() + 60
    reads = sequence = 0
    while reads < READS // READERS // 100 or sequence - first < 1000:
        assert time.monotonic() < deadline or sequence - first >= 1000
        pool = rig.region.pool()
        heaviest = int(pool["weight"][:32].argmax())
        assert (int(pool["server"][0]), heaviest) in ((0, 31), (32, 0))
        reads, sequence = reads + 1, int(pool["sequence"])


def started(body: Callable[..., None], *arguments: Any) -> Any:
    process = multiprocessing.get_context("fork").Process(target=body, args=arguments, daemon=True)
    process.start()
    return process


def test_no_read_is_torn() -> None:
    rig = Rig(flow_entries=1024)
    rig.native.set_timeouts(0, HOUR_NS, HOUR_NS, HOUR_NS)  # each packet is a new flow
    rig.native.pools.replace(0, *POOLS[0])
    first = int(rig.region.pool()["sequence"])
    writer = started(replace_for_ever, rig.native.region_map_fd)
    try:
        readers = [started(decide, rig, n) for n in range(READERS)] + [started(look, rig, first)]
        for reader in readers:
            reader.join()
            assert reader.exitcode == 0 and writer.is_alive()
    finally:
        writer.terminate()
        writer.join()
    packets = rig.snapshot()["servers"]["packets"]
    assert packets.sum() >= READS * 0.9 - READERS * BATCH
    assert packets[31] + packets[32] == packets.sum(), "a server that only a mixture chooses"
    assert packets[31] and packets[32]
    assert rig.counted().get("pool_busy", 0) == 0
    rig.close()
