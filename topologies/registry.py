"""Topologies by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dcgym.config import check_keys
from dcgym.errors import ConfigError, suggest
from dcgym.topologies.builders.bcube import bcube
from dcgym.topologies.builders.dumbbell import dumbbell
from dcgym.topologies.builders.fat_tree import fat_tree
from dcgym.topologies.builders.jellyfish import jellyfish
from dcgym.topologies.builders.leaf_spine import leaf_spine
from dcgym.topologies.builders.parking_lot import parking_lot
from dcgym.topologies.builders.plain_graph import plain_graph
from dcgym.topologies.builders.pod import pod
from dcgym.topologies.builders.single_switch import single_switch
from dcgym.topologies.graph import Topology
from dcgym.topologies.io import files

__all__ = ["TOPOLOGIES", "make_topology", "register_topology"]

TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "dumbbell": dumbbell,
    "fat-tree": fat_tree,
    "leaf-spine": leaf_spine,
    "parking-lot": parking_lot,
    "single-switch": single_switch,
    "jellyfish": jellyfish,
    "bcube": bcube,
    "pod": pod,
    "graph": plain_graph,
}
"""The functions that build a topology, by name."""


def make_topology(spec: str | Path | Mapping[str, Any] | Topology, **params: Any) -> Topology:
    """Build a topology from whatever a configuration holds.

    Args:
        spec: A name ("dumbbell"), a mapping of a name and its parameters
            ({"name": "dumbbell", "hosts": 4}), a mapping of nodes and links, the path of a .yaml,
            .json or .graphml file, or a finished topology.
        **params: Parameters of the named topology; they win over those of the mapping.

    Returns:
        The topology.

    Raises:
        ConfigError: Unknown name, unknown or wrong parameter, or unreadable file.
    """
    if isinstance(spec, Mapping):
        if "nodes" not in spec:
            return _from_params({**spec, **params})
        finished = files.from_dict(spec)
    elif isinstance(spec, Topology):
        finished = spec
    elif isinstance(spec, Path) or (isinstance(spec, str) and files.is_path(spec)):
        finished = files.load(spec)
    else:
        return _from_params({"name": spec, **params})
    if params:
        allowed = "no parameters, because this topology is already complete"
        raise ConfigError("topology parameters", sorted(params), allowed)
    return finished


def register_topology(name: str, factory: Callable[..., Topology]) -> None:
    """Make a topology available by name.

    Args:
        name: Lower-case words joined by "-".
        factory: Function that returns a topology; its parameters are those of the configuration.

    Raises:
        ConfigError: The name is taken or malformed.
    """
    if not name or name != _normalise(name) or files.is_path(name):
        raise ConfigError("topology", name, 'lower-case words joined by "-"')
    if name in TOPOLOGIES:
        raise ConfigError("topology", name, "a name that is not registered yet")
    TOPOLOGIES[name] = factory


def _from_params(spec: Mapping[str, Any]) -> Topology:
    params = dict(spec)
    name = params.pop("name", None)
    if not isinstance(name, str) or _normalise(name) not in TOPOLOGIES:
        hint = suggest(_normalise(name), TOPOLOGIES) if isinstance(name, str) else None
        allowed = f"{', '.join(TOPOLOGIES)}, or a .yaml, .json or .graphml file"
        raise ConfigError("topology", name, allowed, hint)
    factory = TOPOLOGIES[_normalise(name)]
    known = inspect.signature(factory).parameters
    check_keys(params, known, f"topology {_normalise(name)}")
    for field, parameter in known.items():
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_named and parameter.default is parameter.empty and field not in params:
            raise ConfigError(f"topology {_normalise(name)}", f"no {field}", f"{field}, required")
    return factory(**params)


def _normalise(name: str) -> str:
    return name.strip().lower().replace("_", "-")
