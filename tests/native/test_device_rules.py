"""Which device of a server gets a request: each rule by hand, its shares, and the same in BPF."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from dcgym.native import require
from dcgym.tasks.accelerators.rules import DEVICE_RULES, SERVER_RULES
from tests.support.bpf_cases import CaseProgram, compile_program

pytestmark = pytest.mark.simulation

PROGRAM = Path(__file__).parent / "programs" / "device_rules.bpf.c"
DEVICES, RING_SLOTS, CHOICES = 8, 2048, 1024
DEVICE = np.dtype(
    [
        ("time_ns", "<u8"),
        ("reports", "<u4"),
        ("sequence", "<u4"),
        ("queue", "<u2"),
        ("load", "u1"),
        ("is_busy", "u1"),
        ("memory", "u1"),
        ("unused", "u1", 3),
    ]
)
CASE = np.dtype(
    [
        *((name, "<u4") for name in ("rule", "ring_slots", "threshold", "cursor")),
        *((name, "<u8") for name in ("random", "now_ns", "max_age_ns")),
        ("present", "<u4"),
        ("weight", "<u4", DEVICES),
        ("unused", "<u4"),
        ("device", DEVICE, DEVICES),
        ("turns", [("next", "<u4"), ("unused", "<u4"), ("credit", "<i8", DEVICES)]),
        ("by_bits", "u1", 2**DEVICES),
        ("ring", "u1", RING_SLOTS),
        ("choice", "<u4", CHOICES),
    ]
)
Known = tuple[bool, int, int, int, bool, int]


def device(
    load: int = 0, queue: int = 0, busy: bool = False, weight: int = 1, heard_ns: int = 1
) -> Known:
    return True, weight, load, queue, busy, heard_ns


GONE: Known = (False, 0, 0, 0, False, -1)


def choose(
    rule: str,
    known: list[Known],
    count: int = 1,
    ring: tuple[int, ...] = (),
    threshold: int = 100,
    max_age_ns: int = 0,
    now_ns: int = 100,
    seed: int = 1,
) -> list[int]:
    found: list[int] = require("_simulation").choose_devices(
        DEVICE_RULES[rule].number, known, list(ring), threshold, max_age_ns, now_ns, seed, count
    )
    return found


def test_the_sizes_are_those_of_the_header() -> None:
    native = require("_simulation")
    assert (native.DEVICES, native.RING_SLOTS) == (DEVICES, RING_SLOTS)


def test_the_first_level_has_rules_that_need_nothing_but_what_the_balancer_has() -> None:
    assert {"ecmp", "random", "round-robin", "wcmp", "lsq", "lsq2", "sed"} <= set(SERVER_RULES)
    assert not {"gsq", "prequal", "sapp", "awcmp"} & set(SERVER_RULES)


@pytest.mark.parametrize(
    ("rule", "known", "expected"),
    [
        ("server-only", [device(100, 9, True), device()], [0, 0]),
        ("device-ecmp", [device(), device(), device()], [0, 1, 2, 0]),
        ("device-ecmp", [device(), GONE, device()], [0, 2, 0]),
        # The first of the least; nothing changes before the next report.
        ("lur", [device(90), device(40), device(40)], [1, 1, 1]),
        ("device-jsq", [device(0, 7), device(99, 9), device(0, 3)], [2, 2]),
        # Strictly by speed: the first that is not full, and the processors where all are.
        ("prt", [device(99), device(0)], [0, 0]),
        ("prt", [device(100), device(100), device(50)], [2]),
        ("prt", [device(100), device(100)], [0]),
        # P4Mite's "10": the processors are busy, the first accelerator is free.
        ("p4mite", [device(busy=True), device()], [1]),
        ("p4mite", [device(), device()], [0]),
        ("p4mite", [device(busy=True), device(busy=True)], [0]),
        ("p4mite", [device(busy=True), GONE, device()], [2]),
        ("dynamic-wrr", [device(0, weight=2), device(0, weight=1)], [0, 1, 0, 0, 1, 0]),
        # 5 (1 - 0.8) : 1 (1 - 0) are alike; 5 (1 - 1) is nothing.
        ("dynamic-wrr", [device(80, weight=5), device(0, weight=1)], [0, 1, 0, 1]),
        ("dynamic-wrr", [device(100, weight=5), device(50, weight=1)], [1, 1, 1]),
        # All full: the weights themselves.
        ("dynamic-wrr", [device(100, weight=2), device(100, weight=1)], [0, 1, 0]),
        ("lur", [GONE, GONE], [255]),
    ],
)
def test_a_worked_example(rule: str, known: list[Known], expected: list[int]) -> None:
    assert choose(rule, known, len(expected)) == expected


def test_rings_hold_slots_by_weight() -> None:
    native = require("_simulation")
    # The source's ring of 8: GPU 4, CPU 2, NIC 2; here in the order of smooth round robin.
    ring = native.device_ring([4.0, 2.0, 2.0], RING_SLOTS)
    assert np.bincount(ring).tolist() == [2, 1, 1]
    assert native.device_ring([6.0, 0.0, 0.0], RING_SLOTS) == [0]
    assert native.device_ring([6.0, 1.0], RING_SLOTS) == [0, 0, 0, 1, 0, 0, 0]
    assert native.device_ring([0.0, 0.0], RING_SLOTS) == []
    # Weights that are not whole share all slots, to half a slot.
    shares = np.bincount(native.device_ring([0.5, 0.3, 0.2], 1024))
    assert shares.sum() == 1024 and np.abs(shares - [512, 307.2, 204.8]).max() < 1
    known = [device(), device()]
    assert choose("wrr", known, 8, (0, 0, 1)) == [0, 0, 1, 0, 0, 1, 0, 0]
    # No slot at all: the processors.
    assert choose("wrr", known, 2, ()) == [0, 0]


def test_a_report_that_is_too_old_counts_as_none() -> None:
    fresh, stale, never = device(90, heard_ns=950), device(5, heard_ns=800), device(0, heard_ns=-1)
    known = [fresh, stale, never]
    # Without a limit registers are taken as they are, and one that nobody wrote is 0.
    assert choose("lur", known, now_ns=1000) == [2]
    assert choose("lur", known, now_ns=1000, max_age_ns=250) == [1]
    assert choose("lur", known, now_ns=1000, max_age_ns=100) == [0]
    assert choose("lur", known, now_ns=1000, max_age_ns=10) == [0]
    assert choose("prt", [device(100, heard_ns=999), stale], now_ns=1000, max_age_ns=100) == [0]
    assert choose(
        "p4mite", [device(heard_ns=0), device(heard_ns=999)], now_ns=1000, max_age_ns=9
    ) == [1]


def test_two_choices_are_uniform_and_prefer_the_lower_load() -> None:
    n = 20_000
    even = np.bincount(choose("device-po2", [device(7)] * 4, n), minlength=4)
    assert chisquare(even).pvalue > 1e-3
    # The pair decides: the least of four is in half of the six pairs, the next in two of them.
    ranked = np.bincount(choose("device-po2", [device(i) for i in range(4)], n), minlength=4)
    assert ranked[3] == 0
    assert chisquare(ranked[:3], n * np.array([3, 2, 1]) / 6).pvalue > 1e-3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseProgram]:
    loaded = CaseProgram(compile_program(PROGRAM, tmp_path_factory.mktemp("bpf")), CASE)
    yield loaded
    loaded.close()


@pytest.mark.native
@pytest.mark.skipif(shutil.which("clang") is None, reason="clang compiles the program")
@pytest.mark.parametrize("rule", list(DEVICE_RULES))
def test_the_kernel_chooses_as_the_twin_does(program: CaseProgram, rule: str) -> None:
    rng = np.random.default_rng(DEVICE_RULES[rule].number)
    native = require("_simulation")
    for n, max_age_ns in ((1, 0), (3, 0), (3, 50), (8, 0), (8, 50)):
        case = np.zeros(1, CASE)[0]
        case["rule"], case["random"], case["threshold"] = DEVICE_RULES[rule].number, 9, 60
        case["now_ns"], case["max_age_ns"] = 1000, max_age_ns
        rows = case["device"][:n]
        present = rng.random(n) < 0.9
        case["present"] = sum(1 << i for i in range(n) if present[i])
        rows["load"], rows["queue"] = rng.integers(0, 101, n), rng.integers(0, 9, n)
        rows["is_busy"], weight = rng.integers(0, 2, n), rng.integers(0, 6, n)
        case["weight"][:n] = weight
        rows["reports"], rows["time_ns"] = 1, rng.integers(900, 1001, n)
        for bits in range(2**DEVICES):
            free = [d for d in range(DEVICES) if not bits >> d & 1]
            case["by_bits"][bits] = free[0] if free else 0
        ring = native.device_ring([float(w) for w in weight], RING_SLOTS)
        case["ring_slots"] = len(ring)
        case["ring"][: len(ring)] = ring
        after = program.run(case, 64)
        known = [
            (bool(present[i]), int(weight[i]), *(int(r[k]) for k in ("load", "queue")),
             bool(r["is_busy"]), int(r["time_ns"]))
            for i, r in enumerate(rows)
        ]  # fmt: skip
        expected = choose(rule, known, 64, tuple(ring), 60, max_age_ns, 1000, 9)
        assert after["choice"][:64].tolist() == expected, (n, max_age_ns)
