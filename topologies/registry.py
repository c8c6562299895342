"""Topologies by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from dcgym.config import check_keys, read_arguments
from dcgym.errors import ConfigError, suggest
from dcgym.registry import Registry
from dcgym.topologies.graph import Topology
from dcgym.topologies.io import files

__all__ = ["TOPOLOGIES", "make_topology"]

# No dots: a name with a suffix would read as a file.
TOPOLOGIES: Registry[Callable[..., Topology]] = Registry(
    "topologies", "topology", re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
)
"""The functions that build a topology, by name; their parameters are those of a configuration."""


def make_topology(spec: str | Path | Mapping[str, object] | Topology, **params: object) -> Topology:
    """Build a topology from whatever a configuration holds.

    Args:
        spec: A name ("dumbbell"), a mapping of a name and its parameters
            ({"name": "dumbbell", "hosts": 4}), a mapping of nodes and links, a file (see
            `Topology.load`), or a finished topology.
        **params: Parameters of the named topology; they win over those of the mapping.

    Returns:
        The topology.

    Raises:
        ConfigError: Unknown name, unknown or wrong parameter, or unreadable file.
    """
    if isinstance(spec, Mapping):
        if "nodes" not in spec:
            return _from_params({**spec, **params})
        finished = Topology.from_dict(spec)
    elif isinstance(spec, Topology):
        finished = spec
    elif isinstance(spec, Path) or (isinstance(spec, str) and files.is_path(spec)):
        finished = Topology.load(spec)
    else:
        return _from_params({"name": spec, **params})
    if params:
        allowed = "no parameters, because this topology is already complete"
        raise ConfigError("topology parameters", sorted(params), allowed)
    return finished


def _from_params(spec: Mapping[str, object]) -> Topology:
    params = dict(spec)
    name = _find(params.pop("name", None))
    factory = TOPOLOGIES[name]
    known = inspect.signature(factory).parameters
    check_keys(params, known, f"topology {name}")
    for field, parameter in known.items():
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_named and parameter.default is parameter.empty and field not in params:
            raise ConfigError(f"topology {name}", f"no {field}", f"{field}, required")
    return factory(**read_arguments(factory, params))


def _find(name: object) -> str:
    """Return the name under which a topology is registered."""
    normal = name.strip().lower().replace("_", "-") if isinstance(name, str) else ""
    if normal not in TOPOLOGIES:
        names = TOPOLOGIES.names()
        if normal not in names:
            allowed = f"{', '.join(names)}, or a file"
            hint = suggest(normal, names) if normal else None
            raise ConfigError("topology", name, allowed, hint)
    return normal
