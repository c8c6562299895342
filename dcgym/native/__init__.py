"""The compiled parts: six C++ modules, BPF objects and three programs.

They are optional at install time. `require` loads the module or says what is missing.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from types import ModuleType

from dcgym.errors import FeatureNotSupported
from dcgym.native.digest import digest_path, interface_digest
from dcgym.native.tables import read_table

__all__ = [
    "BPF_OBJECTS",
    "MODULES",
    "PROGRAMS",
    "available",
    "bpf_object",
    "build_digest",
    "hint",
    "missing_parts",
    "not_loadable",
    "program_path",
    "require",
]

APT_PACKAGES = (
    "clang llvm libbpf-dev libelf-dev zlib1g-dev libmnl-dev libseccomp-dev libasio-dev "
    "libboost-dev g++ python3-dev"
)
HINT = f"apt-get install {APT_PACKAGES}, then 'make setup' (or: python setup.py build_ext -i)"
SIMULATION_HINT = (
    "install a C++20 compiler (apt-get install g++ python3-dev), then 'make setup' "
    "(or: pip install pybind11; python setup.py build_ext -i)"
)
MODULES = {
    "_native": "the native module",
    "_workload": "the compiled drawing of flows and requests",
    "_simulation": "the compiled simulation",
    "_packets": "the compiled packet twin",
    "_placement": "the compiled model of VIPs",
    "_measure": "the compiled measurements",
}
BPF_OBJECTS = (
    *("fabric", "queues", "l4lb", "l4lb_server"),
    *(row["symbol"] for row in read_table("congestion_controls") if row["program"] != "NONE"),
    "delay",
)
PROGRAMS = {
    "dcgym-generator": "the traffic generator",
    "dcgym-relay": "the relay of link delay",
    "dcgym-host": "the namespaces of hosts",
}


def _root() -> Path:
    return Path(str(resources.files(__name__)))


def require(name: str = "_native") -> ModuleType:
    """Return a compiled module; all but the first need neither clang nor libbpf nor libmnl.

    Args:
        name: A name of `MODULES`.

    Raises:
        FeatureNotSupported: The module was not built, was built from other sources, or cannot be
            loaded.
    """
    what, module = MODULES[name], ".".join((__name__, name))
    _require_current(name, what)
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FeatureNotSupported(f"{what} ({error})", hint(name)) from error


def hint(name: str) -> str:
    """Return how to build a compiled part.

    Args:
        name: Its name, of `MODULES`, `BPF_OBJECTS` or `PROGRAMS`.
    """
    return SIMULATION_HINT if name in MODULES and name != "_native" else HINT


def bpf_object(name: str) -> Path:
    """Return the path of a compiled BPF object, such as ``fabric``.

    Args:
        name: Name of the program, without ending.

    Raises:
        FeatureNotSupported: The object was not built.
    """
    return _built(_root() / "obj" / f"{name}.bpf.o", f"the BPF object '{name}'")


def program_path(name: str) -> Path:
    """Return the path of a compiled program.

    Args:
        name: A name of `PROGRAMS`.

    Raises:
        FeatureNotSupported: The program was not built.
    """
    return _built(_root() / "bin" / name, PROGRAMS[name])


def build_digest() -> str:
    """Return a digest of what the compiled modules were built from; machines of one build agree."""
    paths = [digest_path(_root(), name) for name in MODULES]
    built = [path.read_text() if path.exists() else "" for path in paths]
    return hashlib.sha256(" ".join(built).encode()).hexdigest()


def missing_parts() -> list[str]:
    """Name each native part that is not built, for the doctor and for messages."""
    missing = [name for name in MODULES if not available(name)]
    missing += [name for name in BPF_OBJECTS if not (_root() / "obj" / f"{name}.bpf.o").exists()]
    return missing + [name for name in PROGRAMS if not (_root() / "bin" / name).exists()]


def not_loadable(names: Iterable[str]) -> str | None:
    """Name the first module that was built, but cannot be loaded here; None where all can.

    Args:
        names: Names of `MODULES`.
    """
    for name in names:
        if digest_path(_root(), name).exists():
            try:
                require(name)
            except FeatureNotSupported as error:
                return error.feature
    return None


def available(name: str = "_native") -> bool:
    """Tell whether a compiled module can be loaded.

    Args:
        name: A name of `MODULES`.
    """
    try:
        require(name)
    except FeatureNotSupported:
        return False
    return True


@functools.cache
def _require_current(name: str, what: str) -> None:
    """Refuse a module of other sources, whose functions would fail with a TypeError each."""
    built_from = digest_path(_root(), name)
    if not built_from.exists():
        return
    current = interface_digest(_root(), name)
    if current is not None and built_from.read_text() != current:
        raise FeatureNotSupported(what, "it was built from other sources: make native")


def _built(path: Path, what: str) -> Path:
    if not path.exists():
        raise FeatureNotSupported(what, HINT)
    return path
