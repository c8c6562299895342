"""The rules in the kernel: the same header, compiled to BPF, makes the twin's very choices."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dcgym.monitors.balancer.layout import ALIAS, SAMPLE, SERVERS, SLOTS
from dcgym.native import require_simulation
from dcgym.tasks.balancing.rules import RULES

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(shutil.which("clang") is None, reason="clang compiles the program"),
]

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "programs" / "rules.bpf.c"
CHOICES = 1024
SCORE = np.dtype([("value", "<u8"), ("speed", "<u8"), ("time_ns", "<u8")])
TURN = np.dtype([("credit", "<i8"), ("deadline", "<u8")])
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
    ]
)
KERNEL_RULES = [rule for rule in RULES if RULES[rule].is_in_kernel]


class TestRun(ctypes.Structure):
    """struct bpf_test_run_opts of libbpf, as far as it is used; the library checks the size."""

    __test__ = False
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("data_in", ctypes.c_void_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_void_p),
        ("ctx_out", ctypes.c_void_p),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    ]


class Program:
    """The loaded program and its map, by libbpf."""

    def __init__(self, path: Path) -> None:
        name = ctypes.util.find_library("bpf")
        if name is None:
            pytest.skip("libbpf is not installed")
        self._bpf = ctypes.CDLL(name, use_errno=True)
        pointers = ("bpf_object__open_file", "bpf_object__find_program_by_name")
        for function in (*pointers, "bpf_object__find_map_by_name"):
            getattr(self._bpf, function).restype = ctypes.c_void_p
        self._object = ctypes.c_void_p(self._bpf.bpf_object__open_file(str(path).encode(), None))
        code = self._bpf.bpf_object__load(self._object)
        assert code == 0, f"the verifier refused the program: {os.strerror(-code)}"
        find = self._bpf.bpf_object__find_program_by_name
        program = ctypes.c_void_p(find(self._object, b"choose"))
        cases = ctypes.c_void_p(self._bpf.bpf_object__find_map_by_name(self._object, b"cases"))
        self._program_fd = self._bpf.bpf_program__fd(program)
        self._map_fd = self._bpf.bpf_map__fd(cases)

    def run(self, case: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Run the program once per hash and return the case as it then is."""
        key = ctypes.c_uint32(0)
        memory = ctypes.create_string_buffer(case.tobytes(), CASE.itemsize)
        self._check(self._bpf.bpf_map_update_elem(self._map_fd, ctypes.byref(key), memory, 0))
        packet = ctypes.create_string_buffer(64)
        options = TestRun(ctypes.sizeof(TestRun))
        options.data_in, options.data_size_in = ctypes.addressof(packet), len(packet)
        options.repeat = count
        self._check(self._bpf.bpf_prog_test_run_opts(self._program_fd, ctypes.byref(options)))
        assert options.retval == 0
        self._check(self._bpf.bpf_map_lookup_elem(self._map_fd, ctypes.byref(key), memory))
        return np.frombuffer(memory.raw, CASE)[0]

    def _check(self, code: int) -> None:
        assert code == 0, os.strerror(-code if code < -1 else ctypes.get_errno())

    def close(self) -> None:
        self._bpf.bpf_object__close(self._object)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    target = tmp_path_factory.mktemp("bpf") / "rules.bpf.o"
    folders = (f"/usr/include/{platform.machine()}-linux-gnu", ROOT / "dcgym/native/include")
    includes = [f"-I{folder}" for folder in folders]
    command = ["clang", "-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Werror", *includes]
    subprocess.run([*command, "-c", str(PROGRAM), "-o", str(target)], check=True)
    loaded = Program(target)
    yield loaded
    loaded.close()


@pytest.mark.parametrize("rule", KERNEL_RULES)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 64])
def test_the_kernel_chooses_as_the_twin_does(program: Program, rule: str, n: int) -> None:
    rng = np.random.default_rng(n)
    native = require_simulation()
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
def test_an_impossible_pool_chooses_nobody(program: Program, n: int) -> None:
    case = np.zeros(1, CASE)[0]
    case["n"] = n
    for rule in KERNEL_RULES:
        case["rule"] = RULES[rule].number
        assert program.run(case, 1)["choice"][0] == require_simulation().NO_SERVER
