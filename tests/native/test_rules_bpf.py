"""The rules in the kernel: the same header, compiled to BPF, makes the twin's very choices."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.monitors.balancer.layout import ALIAS, SAMPLE, SERVERS, SLOTS
from dcgym.native import require
from dcgym.tasks.balancing.rules import RULES
from tests.support.bpf_cases import CaseProgram, compile_program

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(shutil.which("clang") is None, reason="clang compiles the program"),
]

PROGRAM = Path(__file__).parent / "programs" / "rules.bpf.c"
CHOICES = 1024
SCORE = np.dtype([("value", "<u8"), ("speed", "<u8"), ("time_ns", "<u8")])
TURN = np.dtype([("credit", "<i8"), ("deadline", "<u8")])
ANSWER = np.dtype(
    [
        *((name, "<u8") for name in ("order", "received_ns", "latency_ns")),
        ("in_flight", "<u4"),
        ("server", "<u2"),
        ("uses", "<u2"),
    ]
)
MOST_ANSWERS = 16
CASE = np.dtype(
    [
        *((name, "<u4") for name in ("rule", "n", "turn", "cursor")),
        *((name, "<u8") for name in ("random", "now_ns")),
        ("server", "<u2", SERVERS),
        ("weight", "<u4", SERVERS),
        ("ongoing", "<u4", SERVERS),
        ("alias", ALIAS, SERVERS),
        ("score", SCORE, SERVERS),
        ("turns", TURN, SERVERS),
        ("clock", "<u8"),
        ("hash", "<u8", CHOICES),
        ("choice", "<u4", CHOICES),
        ("reservoir", SAMPLE, SLOTS),
        ("heard", "<u8", (SERVERS, 6)),
        ("idle", "<u8", 2),
        ("last_order", "<u8"),
        ("n_answers", "<u4"),
        ("worst_next", "<u4"),
        ("answers", ANSWER, MOST_ANSWERS),
        ("places", "u1", 2 * MOST_ANSWERS),
        ("members", "<u8", SERVERS // 64),
        ("since_ns", "<u8"),
        ("met", "<u8", SERVERS // 64),
        ("c3_reset_ns", "<u8"),
    ]
)
KERNEL_RULES = [n for n, rule in RULES.items() if rule.is_in_kernel and not rule.needs_messages]
TOLD_RULES = [name for name, rule in RULES.items() if rule.needs_messages]


def set_of(servers: Iterable[int]) -> npt.NDArray[np.uint64]:
    """Return the words of a set of servers."""
    bits = np.isin(np.arange(SERVERS), list(servers))
    return np.packbits(bits, bitorder="little").view("<u8")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseProgram]:
    target = compile_program(PROGRAM, tmp_path_factory.mktemp("bpf"))
    loaded = CaseProgram(target, CASE, ("choose", "choose_told"))
    yield loaded
    loaded.close()


@pytest.mark.parametrize("rule", KERNEL_RULES)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 64, 65, SERVERS])
def test_the_kernel_chooses_as_the_twin_does(program: CaseProgram, rule: str, n: int) -> None:
    rng = np.random.default_rng(n)
    native = require("_simulation")
    case = np.zeros(1, CASE)[0]
    servers = np.sort(rng.permutation(SERVERS)[:n])
    weights = rng.integers(1, 4, n) if n != 9 else rng.integers(1, 2**24, n)
    case["rule"], case["n"], case["random"], case["now_ns"] = RULES[rule].number, n, 99, 10**10
    case["server"][:n], case["weight"][:n] = servers, weights
    # Columns behind the pool's end may hold anything.
    case["server"][n:], case["weight"][n:] = 0xFFFF, 1
    case["ongoing"] = rng.integers(0, 3, SERVERS)
    case["alias"][:n] = native.alias_table([int(w) for w in weights])
    case["score"]["value"] = rng.integers(0, 2**34, SERVERS)
    case["score"]["speed"] = rng.integers(0, 2**14, SERVERS)
    case["score"]["time_ns"] = rng.integers(0, 10**10, SERVERS)
    case["hash"] = rng.integers(0, 2**64, CHOICES, np.uint64)
    after = program.run(case, CHOICES)
    expected = native.choose(
        RULES[rule].number,
        [int(s) for s in servers],
        [int(w) for w in weights],
        [int(q) for q in case["ongoing"]],
        [tuple(int(x) for x in score) for score in case["score"]],
        99,
        0,
        [int(h) for h in case["hash"]],
        10**10,
    )
    assert list(after["choice"]) == expected["choices"]
    assert int(after["random"]) == expected["random"] and int(after["turn"]) == expected["turn"]
    assert [tuple(int(x) for x in score) for score in after["score"]] == expected["scores"]
    assert [tuple(int(x) for x in turn) for turn in after["turns"]] == expected["turns"]
    assert int(after["clock"]) == expected["clock"]
    latest = {
        int(h) % SLOTS: choice for h, choice in zip(case["hash"], after["choice"], strict=True)
    }
    for slot, choice in latest.items():
        assert tuple(after["reservoir"][slot]) == (10**4, choice)


@pytest.mark.parametrize("n", [0, SERVERS + 1])
def test_an_impossible_pool_chooses_nobody(program: CaseProgram, n: int) -> None:
    case = np.zeros(1, CASE)[0]
    case["n"] = n
    for rule in KERNEL_RULES:
        case["rule"] = RULES[rule].number
        assert program.run(case, 1)["choice"][0] == require("_simulation").NO_SERVER


@pytest.mark.parametrize("rule", TOLD_RULES)
@pytest.mark.parametrize("n", [1, 2, 9, 64, 65, SERVERS])
@pytest.mark.parametrize("joins", ["nobody", "half", "all, by a reset"])
def test_what_was_told_leads_to_the_same_choices(
    program: CaseProgram, rule: str, n: int, joins: str
) -> None:
    rng, now_ns = np.random.default_rng(n), 10**10
    case = np.zeros(1, CASE)[0]
    servers = [int(s) for s in np.sort(rng.permutation(SERVERS)[:n])]
    case["rule"], case["n"], case["random"], case["now_ns"] = RULES[rule].number, n, 99, now_ns
    case["server"][:n], case["server"][n:] = servers, 0xFFFF
    case["ongoing"] = rng.integers(0, 3, SERVERS)
    case["heard"] = rng.integers(0, 2**33, (SERVERS, 6))
    case["heard"][:, 0], case["idle"] = rng.permutation(SERVERS), (SERVERS, 7)
    case["heard"][:, 5] = rng.integers(0, 20 * 256, SERVERS)
    strangers = servers[::2] if joins == "half" else []
    case["members"] = set_of(servers)
    case["since_ns"], case["met"] = 1, set_of(set(servers) - set(strangers))
    case["c3_reset_ns"] = 10**9 if joins == "all, by a reset" else 0
    case["places"][1 : MOST_ANSWERS + 1] = [int(0.5 * i) for i in range(MOST_ANSWERS)]
    # Few loads and latencies, so that many tie; some are of servers that left, old or used up.
    answers = case["answers"]
    answers["order"] = rng.permutation(MOST_ANSWERS) + 1
    answers["received_ns"] = now_ns - rng.integers(0, 1_100_000_000, MOST_ANSWERS)
    answers["latency_ns"] = rng.integers(0, 3, MOST_ANSWERS)
    answers["in_flight"] = rng.integers(0, 4, MOST_ANSWERS)
    answers["server"] = rng.choice([*servers, SERVERS - 1], MOST_ANSWERS)
    answers["uses"] = rng.integers(0, 4, MOST_ANSWERS)
    case["n_answers"] = case["last_order"] = MOST_ANSWERS
    after = program.run(case, 40, "choose_told")
    expected = require("_simulation").choose_told(
        RULES[rule].number,
        servers,
        [int(q) for q in case["ongoing"]],
        *(99, now_ns, 40),
        [tuple(int(x) for x in row) for row in case["heard"]],
        [tuple(int(x) for x in row) for row in answers.tolist()],
        *(0.5, tuple(int(x) for x in case["idle"]), 3, strangers, int(case["c3_reset_ns"])),
    )
    assert list(after["choice"][:40]) == expected["choices"]
    assert int(after["random"]) == expected["random"]
    assert tuple(int(x) for x in after["idle"]) == expected["idle"]
    assert [tuple(int(x) for x in row) for row in after["heard"]] == expected["heard"]
    left = np.sort(after["answers"][: after["n_answers"]], order="order")
    assert left[["order", "in_flight", "server", "uses"]].tolist() == expected["answers"]
