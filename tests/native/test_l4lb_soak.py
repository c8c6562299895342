"""Torn reads: pools replaced as fast as a process can, while others decide by them; mutants.

Eight million decisions here, and a few thousand mutants: of what tears one read in a million, one
run in three thousand sees nothing. `make soak` asks for a billion (DCGYM_SOAK_READS) and 400,000
(DCGYM_SOAK_MUTANTS in each of four cases).
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dcgym.native import require
from dcgym.tasks.balancing.rules import RULES
from tests.support.l4lb_rig import HOUR_NS, OK, VIP4, VIP6, XDP_PASS, Packet, Rig, Rigs
from tests.support.mutants import mutants

pytestmark = pytest.mark.native
READS = int(os.environ.get("DCGYM_SOAK_READS", 8_100_000))
MUTANTS = int(os.environ.get("DCGYM_SOAK_MUTANTS", 3000))
READERS, BATCH = 3, 10_000
SENT_ON = {"missed", "evicted", "pcc_violations", "reports", "icmp_errors", "echoes", "vlan"}
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
    rig = Rig(flow_entries=1024, times_select=True)
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


# As an skb the kernel runs nothing shorter than the IP header that the frame announces.
@pytest.mark.parametrize(("hook", "shortest"), [("tc", 54), ("xdp", 14)])
@pytest.mark.parametrize("vip", [VIP4, VIP6])
def test_every_drop_of_a_mutant_is_counted(rigs: Rigs, vip: str, hook: str, shortest: int) -> None:
    rig = rigs(hook=hook)
    rig.pool("sed", [3, 5, 9])
    verdicts: Counter[int] = Counter()
    for number, frame in enumerate(mutants(Packet(to=vip), MUTANTS, shortest)):
        verdict, _ = rig.native.test_balance(frame)
        verdicts[verdict] += 1
        dropped = sum(count for name, count in rig.counted().items() if name not in SENT_ON)
        assert dropped == verdicts[rig.dropped], f"mutant {number}, {frame.hex()}"
    assert set(verdicts) == {rig.sent, rig.dropped, OK if hook == "tc" else XDP_PASS}
    assert min(verdicts.values()) > MUTANTS / 50, verdicts
