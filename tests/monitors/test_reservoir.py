"""Reservoir, reducers, shared layout, and the samplers of the twin."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest
from scipy import special, stats

from dcgym.errors import BackendError
from dcgym.monitors.balancer.layout import (
    BUFFERS,
    MAGIC,
    REGION,
    SLOTS,
    VERSION,
    BalancerRegion,
    check_layout,
)
from dcgym.monitors.balancer.reducers import reduce_samples
from dcgym.native import require
from dcgym.traffic.sizes import DISTRIBUTION_KINDS

pytestmark = pytest.mark.simulation

SIGNIFICANCE = 1e-4


def test_layout_agrees_with_the_header() -> None:
    assert check_layout(require("_simulation").balancing_layout()) == []


def test_layout_check_finds_a_moved_field() -> None:
    compiled = require("_simulation").balancing_layout()
    size, offsets = compiled["structs"]["lb_pool"]
    moved = {**compiled["structs"], "lb_pool": (size, {**offsets, "rule": 4})}
    assert check_layout({**compiled, "structs": moved})[0].startswith("lb_pool:")
    assert check_layout({**compiled, "version": VERSION + 1}) == ["magic or version"]


def test_survivors_follow_the_published_profile() -> None:
    # Yao (2023), algorithm 1: of rate events an interval, rate ((k-1)/k)^(rate n) remain after n.
    rate, intervals, runs = 100, 6, 400
    events = rate * intervals
    counts = np.zeros(intervals)
    for seed in range(runs):
        ages = np.array(require("_workload").reservoir_survivors(seed, events))
        counts += np.bincount(ages // rate, minlength=intervals)[:intervals]
    survival = ((SLOTS - 1) / SLOTS) ** np.arange(events)
    expected = survival.reshape(intervals, rate).sum(axis=1)
    # The interval's own mean, not its middle, so the profile is exact; 69.6, 31.8, 14.5, ...
    assert expected[0] == pytest.approx(69.57, abs=0.01)
    errors = np.sqrt(expected / runs)  # at most: the slots are negatively correlated
    assert np.all(np.abs(counts / runs - expected) < 4.5 * errors)


@pytest.mark.parametrize("n", [0, 1, 2, 9, 10, 11, 64, 127, SLOTS])
def test_compiled_reduction_is_the_reference(n: int) -> None:
    rng = np.random.default_rng(n)
    for spread in (1, 1000, 2**32):
        slots = np.zeros((SLOTS, 2), np.uint32)
        filled = rng.permutation(SLOTS)[:n]
        slots[filled, 0] = rng.integers(1, 60_000, n)
        slots[filled, 1] = rng.integers(0, spread, n)
        found = require("_workload").reduce(slots, 61_000)
        expected = reduce_samples(slots[filled, 0], slots[filled, 1], 61_000)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_reduction_by_hand() -> None:
    # Two samples, now and ten seconds ago: the older weighs 0.9^10.
    found = reduce_samples(np.array([10_000, 20_000]), np.array([100, 300]), 20_000)
    old, new = 100 * 0.9**10, 300.0
    assert found == pytest.approx(
        [200, 280, 100, (old + new) / 2, old + 0.9 * (new - old)], rel=1e-12
    )


def test_weights_of_very_old_samples_vanish() -> None:
    slots = np.zeros((SLOTS, 2), np.uint32)
    slots[0] = (1, 5000)
    found = require("_workload").reduce(slots, 2**32)
    assert list(found) == [5000, 5000, 0, 0, 0]


def test_region_reader_gets_the_newest_complete_block() -> None:
    memory = bytearray(REGION.itemsize)
    region = np.frombuffer(memory, REGION)[0]
    region["header"]["magic"], region["header"]["version"] = MAGIC, VERSION
    for slot, sequence in enumerate((4, 5, 0, 3)):
        region["snapshots"][slot]["sequence"] = sequence
        region["snapshots"][slot]["syns"] = 10 * sequence
    assert BalancerRegion(memory).snapshot()["syns"] == 50
    region["snapshots"]["sequence"] = 0
    with pytest.raises(BackendError, match="no complete block"):
        BalancerRegion(memory).snapshot()


def test_region_reader_refuses_foreign_memory() -> None:
    with pytest.raises(BackendError, match="magic and version"):
        BalancerRegion(bytes(REGION.itemsize))
    with pytest.raises(BackendError, match="needed"):
        BalancerRegion(bytes(16))


def test_no_block_is_torn_under_a_hostile_writer() -> None:
    memory = bytearray(REGION.itemsize)
    region = np.frombuffer(memory, REGION)[0]
    region["header"]["magic"], region["header"]["version"] = MAGIC, VERSION
    reader, hammer = BalancerRegion(memory), require("_simulation").hammer
    hammer(memory, 1)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            hammer(memory, 10_000)

    writer = threading.Thread(target=write)
    writer.start()
    reads, seen, deadline = 0, set(), time.monotonic() + 60
    try:
        # Until the reader has met the writer at work in more than one buffer.
        while reads < 2000 or len({sequence % BUFFERS for sequence in seen}) < 2:
            assert time.monotonic() < deadline, f"{reads} reads"
            words = np.frombuffer(reader.snapshot().tobytes(), "<u8")
            assert (words == words[0]).all()
            seen.add(int(words[0]))
            reads += 1
    finally:
        done.set()
        writer.join(timeout=60)


# Functions of scipy give the exact distributions; the samplers are our own.
DISTRIBUTION_CASES = {
    "exponential": (0.0, lambda x: 1 - np.exp(-x)),
    "uniform": (0.4, lambda x: np.clip((x - 0.6) / 0.8, 0, 1)),
    "lognormal": (
        2.0,
        lambda x: stats.lognorm.cdf(x, math.sqrt(math.log(5)), scale=1 / math.sqrt(5)),
    ),
    "pareto": (1.5, lambda x: stats.pareto.cdf(x, 1.5, scale=1 / 3)),
}


@pytest.mark.parametrize("kind", DISTRIBUTION_CASES)
def test_samples_follow_the_distribution(kind: str) -> None:
    shape, cdf = DISTRIBUTION_CASES[kind]
    mean_ns = 1e9
    number = DISTRIBUTION_KINDS.index(kind)
    samples = require("_workload").sample(number, mean_ns, shape, 11, 50_000) / mean_ns
    assert stats.kstest(samples, cdf).pvalue > SIGNIFICANCE


def test_constant_is_constant() -> None:
    samples = require("_workload").sample(DISTRIBUTION_KINDS.index("constant"), 123.0, 0.0, 1, 100)
    assert set(samples) == {123}


def test_elementary_functions_are_accurate() -> None:
    native = require("_workload")
    rng = np.random.default_rng(1)
    for x in np.concatenate(
        [10 ** rng.uniform(-300, 300, 2000), 1 + rng.uniform(-1e-3, 1e-3, 500)]
    ):
        assert native.portable_log(x) == pytest.approx(math.log(x), rel=4e-16, abs=1e-18)
    for x in rng.uniform(-700, 700, 2000):
        assert native.portable_exp(x) == pytest.approx(math.exp(x), rel=1e-15)
    for p in np.concatenate([10 ** rng.uniform(-15, -1, 1000), rng.uniform(0, 1, 1000)]):
        assert native.normal_quantile(p) == pytest.approx(special.ndtri(p), rel=1e-13, abs=1e-15)


def test_elementary_functions_never_change() -> None:
    # What the twin's determinism across machines rests on: the very bits.
    native = require("_workload")
    assert native.portable_log(0.3).hex() == "-0x1.34378fcbda721p+0"
    assert native.portable_exp(-1.7).hex() == "0x1.7622c78a98a07p-3"
    assert native.normal_quantile(0.01).hex() == "-0x1.29c5c4630ff0ep+1"
