"""Reading the arguments that all network environments share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from dcgym.backends.base import Backend
from dcgym.config import check_in, check_keys
from dcgym.errors import ConfigError
from dcgym.topologies import Topology, make_topology, with_marking
from dcgym.units import parse_duration

__all__ = [
    "CONGESTION_CONTROLS",
    "BackendSpec",
    "RewardSpec",
    "TopologySpec",
    "is_backend",
    "read_backend",
    "read_congestion_control",
    "read_interval",
    "read_topology",
]

CONGESTION_CONTROLS = ("cubic", "reno", "bbr", "dctcp", "new-vegas")

TopologySpec: TypeAlias = str | Path | Mapping[str, Any] | Topology
BackendSpec: TypeAlias = str | Backend | Callable[[Topology], Backend]
RewardSpec: TypeAlias = str | Sequence[str] | Mapping[str, float]


def is_backend(spec: Any) -> TypeGuard[Backend]:
    """Tell a backend from what makes one."""
    # Not isinstance with the protocol: a class that makes backends has the same attributes.
    return not isinstance(spec, str | type) and hasattr(spec, "apply_rates")


def read_backend(spec: BackendSpec) -> BackendSpec:
    """Return a backend's name, the backend itself, or what makes one.

    A text such as "package.module:Name" is imported, so that files and worker processes can
    name a backend that is not one of dcgym's.

    Raises:
        ConfigError: There is nothing of that name.
    """
    if not isinstance(spec, str) or ":" not in spec:
        return spec
    module, _, name = spec.partition(":")
    try:
        found: BackendSpec = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError("backend", spec, f"module:name of what makes one ({error})") from error
    return found


def read_topology(
    spec: TopologySpec, marking: bool | Mapping[str, Any], backend: Backend | None
) -> tuple[Topology, bool]:
    """Return the network, and whether its switches mark."""
    topology = make_topology(spec) if backend is None else backend.topology
    if not isinstance(marking, Mapping):
        return topology, check_in("marking", marking, (True, False))
    if backend is not None:
        raise ConfigError("marking", dict(marking), "true or false where a backend is given")
    return with_marking(topology, marking), bool(marking)


def read_interval(interval: str | int | float) -> int:
    """Return the control interval in ns; 0 runs freely."""
    interval_ns = parse_duration(interval, "interval")
    if interval_ns < 0:
        raise ConfigError("interval", interval, "a duration such as '50ms', or '0ms' to run freely")
    return interval_ns


def read_congestion_control(spec: str | Mapping[str, str], topology: Topology) -> dict[str, str]:
    """Return the algorithm of each host."""
    names = [host.name for host in topology.hosts]
    if isinstance(spec, Mapping):
        check_keys(spec, names, "congestion_control")
        chosen = {name: spec.get(name, "cubic") for name in names}
    else:
        chosen = dict.fromkeys(names, spec)
    for algorithm in chosen.values():
        check_in("congestion_control", algorithm, CONGESTION_CONTROLS)
    return chosen
