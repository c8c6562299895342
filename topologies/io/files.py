"""Topologies in files: YAML, JSON and GraphML, each read into and written from plain data."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.files import TOPOLOGY, dump_yaml, load_mapping, wrong_file
from dcgym.json_text import json_text
from dcgym.topologies.io.networks import network_content, to_networkx

if TYPE_CHECKING:
    import networkx

    from dcgym.topologies.graph import Topology

__all__ = ["SUFFIXES", "is_path", "load", "read_graphml", "save"]

SUFFIXES = (".yaml", ".yml", ".json", ".graphml")
"""File formats that can be read and written."""


def is_path(text: str) -> bool:
    """Return whether a text names a topology file rather than a registered topology.

    Args:
        text: What a configuration holds.
    """
    return Path(text).suffix.lower() in SUFFIXES or "/" in text


def save(topology: Topology, path: str | Path) -> None:
    """Write a topology to a .yaml, .json or .graphml file.

    Args:
        topology: What to write.
        path: Where to; the suffix decides the format.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be written.
    """
    path = Path(path)
    suffix = check_in(f"suffix of {path.name}", path.suffix.lower(), SUFFIXES)
    try:
        path.write_bytes(_encode(topology, suffix))
    except OSError as error:
        raise ConfigError("path", str(path), f"a writable file ({error.strerror})") from error


def load(path: str | Path) -> dict[str, object]:
    """Return the content of a .yaml, .json or .graphml file as plain data.

    Args:
        path: The file, after which a network without a name of its own is called.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be read.
    """
    path = Path(path)
    suffix = check_in(f"suffix of {path.name}", path.suffix.lower(), SUFFIXES)
    if suffix == ".graphml":
        return network_content(read_graphml(path))
    content = load_mapping(path, "topology", (TOPOLOGY,))
    content.setdefault("name", path.stem)
    return content


def read_graphml(path: Path) -> networkx.Graph[str]:
    """Read a GraphML file, parallel links included.

    Args:
        path: The file.

    Raises:
        ConfigError: It cannot be read.
    """
    import networkx

    try:
        graph = networkx.read_graphml(path, force_multigraph=True)
    except OSError as error:
        raise ConfigError("topology", str(path), f"a readable file ({error.strerror})") from error
    except (ParseError, networkx.NetworkXError, KeyError, ValueError) as error:
        raise wrong_file("topology", path, f"valid GraphML ({error})") from error
    graph.graph.setdefault("name", path.stem)
    return graph


def _encode(topology: Topology, suffix: str) -> bytes:
    if suffix == ".graphml":
        import networkx

        graph = to_networkx(topology)
        graph.graph = {"name": topology.name}
        buffer = io.BytesIO()
        networkx.write_graphml(graph, buffer)
        return buffer.getvalue()
    content = topology.to_dict()
    if suffix == ".json":
        return (json_text(content) + "\n").encode()
    return dump_yaml(content).encode()
