"""Topologies in files, read into plain data and, in some formats, written from it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from dcgym.config import as_name, check_in
from dcgym.errors import ConfigError
from dcgym.files import TOPOLOGY, load_mapping, read_text, wrong_file
from dcgym.json_text import json_text
from dcgym.reading import TEXT, YAML, check_readable, read_chunks, reading
from dcgym.topologies.io.hpcc import hpcc_content
from dcgym.topologies.io.networks import network_content, to_networkx
from dcgym.topologies.io.sndlib import sndlib_content
from dcgym.writing import check_output, write_file
from dcgym.yaml_text import dump_yaml

if TYPE_CHECKING:
    import networkx

    from dcgym.topologies.base import Graph

__all__ = ["SUFFIXES", "is_path", "load", "read_any", "save"]

_SAVED = (".yaml", ".yml", ".json", ".graphml")

_FOREIGN = (".xml", ".txt")

SUFFIXES = (*_SAVED, ".gml", *_FOREIGN)
"""File formats that can be read; GML, and files of SNDlib and HPCC, cannot be written."""


def is_path(text: str) -> bool:
    """Return whether a text names a topology file rather than a registered topology.

    Args:
        text: What a configuration holds.
    """
    return Path(text).suffix.lower() in SUFFIXES or "/" in text


def save(topology: Graph, path: str | Path) -> None:
    """Write a topology to a .yaml, .json or .graphml file.

    Args:
        topology: What to write.
        path: Where to; the suffix decides the format.

    Raises:
        ConfigError: Unknown suffix, the file cannot be written, or would be too large to be read.
    """
    path = check_output(path, "path", _SAVED)
    suffix = path.suffix.lower()
    content = _encode(topology, suffix)
    check_readable(content, path, "path", TEXT if suffix == ".graphml" else YAML)
    write_file(path, "path", content)


def load(path: str | Path) -> dict[str, object]:
    """Return the content of a file as `read_content` of `dcgym.topologies.content` takes it.

    Args:
        path: The file, after which a network without a name of its own is called.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be read.
    """
    content = read_any(path)
    if not isinstance(content, dict):
        return network_content(content)
    if Path(path).suffix.lower() in _FOREIGN:
        content.pop("directed", None)
    return content


def read_any(path: str | Path, field: str = "topology") -> networkx.Graph[str] | dict[str, object]:
    """Return what a file holds: a graph, or plain data where its format is no graph's.

    Args:
        path: The file.
        field: Names it in errors.

    Raises:
        ConfigError: Unknown suffix, or the file cannot be read.
    """
    path = Path(path)
    suffix = check_in(f"suffix of {path.name}", path.suffix.lower(), SUFFIXES)
    if suffix in (".graphml", ".gml"):
        return _read_graph(path, field)
    if suffix in _FOREIGN:
        return _read_text(path, field)
    return {"name": as_name(path.stem), **load_mapping(path, field, (TOPOLOGY,))}


def _read_text(path: Path, field: str) -> dict[str, object]:
    expected = "a network of SNDlib, or in a .txt file one of HPCC"
    text = read_text(path, field, expected)
    if re.match(r"\s*\?SNDlib", text) or (path.suffix == ".xml" and "sndlib" in text):
        return sndlib_content(path)
    if path.suffix == ".xml" or not re.match(r"\s*\d+\s+\d+\s+\d+\s", text):
        raise wrong_file(field, path, expected)
    return hpcc_content(text, path)


def _read_graph(path: Path, field: str) -> networkx.Graph[str]:
    """Read GraphML or GML, parallel links included."""
    import networkx

    kind = "GML" if path.suffix.lower() == ".gml" else "GraphML"
    try:
        if kind == "GML":
            graph = _parse_gml(read_text(path, field, kind))
        else:
            # Bytes, as the first line may name the encoding.
            with reading(path, field, kind):
                content = b"".join(read_chunks(path, field, TEXT))
            graph = networkx.read_graphml(io.BytesIO(content), force_multigraph=True)
    except ConfigError:
        raise
    except (ParseError, networkx.NetworkXError, KeyError, ValueError, RecursionError) as error:
        raise wrong_file(field, path, f"valid {kind} ({error})") from error
    graph.name = as_name(str(graph.name or path.stem))
    return graph


def _parse_gml(text: str) -> networkx.Graph[str]:
    """Return a graph whose nodes are called by their labels, if these differ, else by their ids."""
    import networkx

    if not re.search(r"^\s*multigraph\s", text, re.MULTILINE):
        # Without the word the library refuses parallel links, which files have all the same.
        text = re.sub(r"\bgraph\s*\[", "graph [ multigraph 1 ", text, count=1)
    # GML is ASCII, with characters beyond it as entities; files hold them as they are.
    graph = networkx.parse_gml(text.encode("ascii", "xmlcharrefreplace").decode(), label="id")
    labels = [fields.get("label") for _, fields in graph.nodes(data=True)]
    if None not in labels and len({*map(str, labels)}) == len(labels):
        return networkx.relabel_nodes(graph, dict(zip(graph, map(str, labels), strict=True)))
    return graph


def _encode(topology: Graph, suffix: str) -> bytes:
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
