"""The compiled parts: five C++ modules, BPF objects and three programs.

They are optional at install time. `require` loads the module or says what is missing.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from types import ModuleType

from dcgym.errors import FeatureNotSupported
from dcgym.native.digest import digest_path, interface_digest

__all__ = [
    "BPF_OBJECTS",
    "MODULES",
    "PROGRAMS",
    "SIMULATION_HINT",
    "available",
    "bpf_object",
    "find_measure",
    "missing_parts",
    "packets_available",
    "placement_available",
    "program_path",
    "require",
    "require_packets",
    "require_placement",
    "require_simulation",
    "simulation_available",
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
MODULES = ("_native", "_simulation", "_packets", "_placement", "_measure")
BPF_OBJECTS = (
    "fabric",
    "queues",
    "l4lb",
    "l4lb_server",
    "dctcp",
    "new_vegas",
    "swift",
    "timely",
    "theta_powertcp",
    "copa",
    "dcgym_agent",
    "delay",
)
PROGRAMS = {
    "dcgym-generator": "the traffic generator",
    "dcgym-relay": "the relay of link delay",
    "dcgym-host": "the namespaces of hosts",
}


def _root() -> Path:
    return Path(str(resources.files(__name__)))


def require() -> ModuleType:
    """Return the compiled module.

    Raises:
        FeatureNotSupported: The module was not built, was built from other sources, or cannot be
            loaded.
    """
    with _load("_native", "the native module", HINT):
        return importlib.import_module("dcgym.native._native")


def require_simulation() -> ModuleType:
    """Return the compiled simulations, which need neither clang nor libbpf nor libmnl.

    Raises:
        FeatureNotSupported: The module was not built or cannot be loaded.
    """
    with _load("_simulation", "the compiled simulation", SIMULATION_HINT):
        return importlib.import_module("dcgym.native._simulation")


def require_packets() -> ModuleType:
    """Return the compiled packet twin, which needs what `require_simulation` needs.

    Raises:
        FeatureNotSupported: The module was not built or cannot be loaded.
    """
    with _load("_packets", "the compiled packet twin", SIMULATION_HINT):
        return importlib.import_module("dcgym.native._packets")


def require_placement() -> ModuleType:
    """Return the compiled flow-level model of VIPs, which needs what `require_simulation` needs.

    Raises:
        FeatureNotSupported: The module was not built or cannot be loaded.
    """
    with _load("_placement", "the compiled model of VIPs", SIMULATION_HINT):
        return importlib.import_module("dcgym.native._placement")


def find_measure() -> ModuleType | None:
    """Return the compiled measurements of networks; None where they are not built.

    NumPy then measures the same in several times the time.
    """
    try:
        with _load("_measure", "the compiled measurements", SIMULATION_HINT):
            return importlib.import_module("dcgym.native._measure")
    except FeatureNotSupported:
        return None


@contextmanager
def _load(name: str, what: str, hint: str) -> Iterator[None]:
    _require_current(name, what)
    try:
        yield
    except ImportError as error:
        raise FeatureNotSupported(f"{what} ({error})", hint) from error


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


def missing_parts() -> list[str]:
    """Name each native part that is not built, for the doctor and for messages."""
    missing = [] if available() else ["_native"]
    missing += [] if simulation_available() else ["_simulation"]
    missing += [] if packets_available() else ["_packets"]
    missing += [] if placement_available() else ["_placement"]
    missing += [] if find_measure() is not None else ["_measure"]
    missing += [name for name in BPF_OBJECTS if not (_root() / "obj" / f"{name}.bpf.o").exists()]
    return missing + [name for name in PROGRAMS if not (_root() / "bin" / name).exists()]


def available() -> bool:
    """Tell whether the compiled module can be loaded."""
    return _is_there(require)


def simulation_available() -> bool:
    """Tell whether the compiled simulations can be loaded."""
    return _is_there(require_simulation)


def packets_available() -> bool:
    """Tell whether the compiled packet twin can be loaded."""
    return _is_there(require_packets)


def placement_available() -> bool:
    """Tell whether the compiled model of VIPs can be loaded."""
    return _is_there(require_placement)


def _is_there(load: Callable[[], ModuleType]) -> bool:
    try:
        load()
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
