"""Commands that make BPF objects and shared objects of our sources.

`setup.py` loads this file by its path, before the package can be imported.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path

__all__ = ["bpf_command", "control_defines", "shared_command"]

_ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}


def bpf_command(native: Path, source: Path, defines: Sequence[str] = ()) -> list[str]:
    """Return the command that compiles a BPF object, without its output.

    Args:
        native: The folder ``dcgym/native``.
        source: The source.
        defines: Options that define macros.
    """
    machine = platform.machine()
    command = ["clang", "-target", "bpf", "-O2", "-g", "-Wall", "-mcpu=v3"]
    command += [f"-D__TARGET_ARCH_{_ARCHITECTURES.get(machine, machine)}"]
    command += [f"-I/usr/include/{machine}-linux-gnu", f"-I{native / 'include'}"]
    return [*command, f"-I{native / 'bpf'}", *defines, "-c", str(source)]


def shared_command(native: Path, source: Path, defines: Sequence[str]) -> list[str]:
    """Return the command that makes a shared object of a C source, without its output.

    Args:
        native: The folder ``dcgym/native``.
        source: The source.
        defines: Options that define macros.
    """
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, "-shared", "-fPIC", "-O2", "-Wall"]
    command += ["-Werror=implicit-function-declaration", f"-I{native / 'include'}"]
    return [*command, *defines, str(source)]


def control_defines(symbol: str, header: Path) -> list[str]:
    """Return the options that name an algorithm of ``window_control.h``.

    Args:
        symbol: Its name in C.
        header: The header that it is.
    """
    return [f"-DDCGYM_CONTROL={symbol}", f'-DDCGYM_CONTROL_HEADER="{header}"']
