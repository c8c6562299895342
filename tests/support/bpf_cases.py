"""A BPF program that reads and writes one case in a map, compiled and run as often as asked."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

__all__ = ["CaseProgram", "compile_program"]

ROOT = Path(__file__).parents[2]


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


class CaseProgram:
    """The loaded programs and their map `cases`, by libbpf."""

    def __init__(self, path: Path, case: npt.DTypeLike, names: Sequence[str] = ("choose",)) -> None:
        library = ctypes.util.find_library("bpf")
        if library is None:
            pytest.skip("libbpf is not installed")
        self._case = np.dtype(case)
        self._bpf = ctypes.CDLL(library, use_errno=True)
        pointers = ("bpf_object__open_file", "bpf_object__find_program_by_name")
        for function in (*pointers, "bpf_object__find_map_by_name"):
            getattr(self._bpf, function).restype = ctypes.c_void_p
        self._object = ctypes.c_void_p(self._bpf.bpf_object__open_file(str(path).encode(), None))
        code = self._bpf.bpf_object__load(self._object)
        assert code == 0, f"the verifier refused the program: {os.strerror(-code)}"
        find = self._bpf.bpf_object__find_program_by_name
        fds = {}
        for name in names:
            program = ctypes.c_void_p(find(self._object, name.encode()))
            fds[name] = self._bpf.bpf_program__fd(program)
        cases = ctypes.c_void_p(self._bpf.bpf_object__find_map_by_name(self._object, b"cases"))
        self._program_fds = fds
        self._map_fd = self._bpf.bpf_map__fd(cases)

    def run(self, case: npt.NDArray[Any], count: int, name: str = "choose") -> npt.NDArray[Any]:
        """Run a program so many times and return the case as it then is."""
        key = ctypes.c_uint32(0)
        memory = ctypes.create_string_buffer(case.tobytes(), self._case.itemsize)
        self._check(self._bpf.bpf_map_update_elem(self._map_fd, ctypes.byref(key), memory, 0))
        packet = ctypes.create_string_buffer(64)
        options = TestRun(ctypes.sizeof(TestRun))
        options.data_in, options.data_size_in = ctypes.addressof(packet), len(packet)
        options.repeat = count
        self._check(
            self._bpf.bpf_prog_test_run_opts(self._program_fds[name], ctypes.byref(options))
        )
        assert options.retval == 0
        self._check(self._bpf.bpf_map_lookup_elem(self._map_fd, ctypes.byref(key), memory))
        return np.frombuffer(memory.raw, self._case)[0]

    def _check(self, code: int) -> None:
        assert code == 0, os.strerror(-code if code < -1 else ctypes.get_errno())

    def close(self) -> None:
        self._bpf.bpf_object__close(self._object)


def compile_program(source: Path, folder: Path) -> Path:
    """Compile a program as setup.py does, warnings being errors; returns the object."""
    target = folder / source.with_suffix(".o").name
    folders = (f"/usr/include/{platform.machine()}-linux-gnu", ROOT / "dcgym/native/include")
    includes = [f"-I{folder}" for folder in folders]
    command = ["clang", "-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Werror", *includes]
    subprocess.run([*command, "-c", str(source), "-o", str(target)], check=True)
    return target
