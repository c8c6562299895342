"""Congestion controls of other packages, one header each: compiled when they are first used.

A header is an algorithm of ``include/window_control.h``. It becomes a BPF object for the kernel and
a shared object with its functions for the packet twin. Both are kept in the user's cache by what
they were made of, so that a changed header is compiled anew.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dcgym.errors import ConfigError, FeatureNotSupported
from dcgym.native.compilers import bpf_command, control_defines, shared_command
from dcgym.native.digest import with_headers

__all__ = ["control_functions", "control_object", "control_symbol"]

_NATIVE = Path(__file__).parent
_DEADLINE_S = 60.0
_FIELD = "header of a congestion control"


def control_object(header: Path) -> Path:
    """Return the BPF object of an algorithm.

    Args:
        header: Its header. The name of the file is the algorithm's name in C.

    Raises:
        ConfigError: There is no such header, or it cannot be compiled.
        FeatureNotSupported: There is no compiler.
    """
    defines = control_defines(control_symbol(header), header)
    source = _NATIVE / "bpf" / "transport" / "window_control.bpf.c"
    return _made(header, source, bpf_command(_NATIVE, source, defines), ".bpf.o")


def control_functions(header: Path) -> int:
    """Return the address of an algorithm's functions in this process, where they stay.

    Args:
        header: As in `control_object`.

    Raises:
        ConfigError: There is no such header, or it cannot be compiled.
        FeatureNotSupported: There is no compiler.
    """
    defines = control_defines(control_symbol(header), header)
    source = _NATIVE / "twin" / "packets" / "congestion" / "foreign_control.c"
    return _loaded(_made(header, source, shared_command(_NATIVE, source, defines), ".so"))


def control_symbol(header: Path) -> str:
    """Return the name of an algorithm in C.

    Args:
        header: Its header.

    Raises:
        ConfigError: There is no such header, or its name is none in C.
    """
    if not header.is_file() or not (header.stem.isidentifier() and header.stem.isascii()):
        allowed = "a header whose name is that of its algorithm in C, such as my_control.h"
        raise ConfigError(_FIELD, str(header), allowed)
    return header.stem


@functools.cache
def _loaded(path: Path) -> int:
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(str(path)), "dcgym_control"))


def _made(header: Path, source: Path, command: Sequence[str], ending: str) -> Path:
    content = hashlib.sha256("\0".join(command).encode())
    try:
        for path in with_headers(_NATIVE, [header, source], "bpf"):
            content.update(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        allowed = f"a header that can be read as UTF-8 ({error})"
        raise ConfigError(_FIELD, str(header), allowed) from None
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dcgym")
    target = folder / f"{header.stem}-{content.hexdigest()[:16]}{ending}"
    if target.exists():
        return target
    what = f"the congestion control of {header.name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            partial = Path(place) / target.name
            _run(header, [*command, "-o", str(partial)])
            partial.replace(target)
    except FileNotFoundError:
        raise FeatureNotSupported(what, f"the compiler {command[0]}") from None
    except OSError as error:
        needed = f"a cache that can be written, XDG_CACHE_HOME ({error})"
        raise FeatureNotSupported(what, needed) from None
    except subprocess.TimeoutExpired:
        raise FeatureNotSupported(what, f"a compiler that ends in {_DEADLINE_S} s") from None
    return target


def _run(header: Path, command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), "")
        allowed = f"an algorithm of window_control.h that compiles: {first}"
        raise ConfigError(_FIELD, str(header), allowed)
