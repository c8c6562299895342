"""Networks of SNDlib as plain data."""

from __future__ import annotations

from pathlib import Path

from dcgym.config import as_name
from dcgym.sndlib import SndlibLink, read_sndlib, to_bps

__all__ = ["sndlib_content"]


def sndlib_content(path: str | Path) -> dict[str, object]:
    """Return the network of a file as plain data, without roles, queues and delays.

    The rate of a link is its pre-installed capacity, or, where nothing is installed, that of its
    only module. Among several modules the plan is to choose: such a link has no rate, and neither
    has one without capacity and modules. The file does not say whether links are directed, so that
    opposite ones are taken for the two directions of one. Demands, coordinates and costs are in
    `read_sndlib`.

    Args:
        path: The file, after which the network is called.

    Returns:
        "name", "directed", "nodes" (each with "name") and "links" (each with "a", "b", perhaps
        "rate_bps").

    Raises:
        ConfigError: The file cannot be read.
    """
    network = read_sndlib(path, "topology")
    links: list[dict[str, object]] = []
    for link in network.links:
        rate_bps = _rate_bps(link, network.unit_bps)
        known = {} if rate_bps is None else {"rate_bps": rate_bps}
        links.append({"a": link.source, "b": link.target, **known})
    nodes = [{"name": node.name} for node in network.nodes]
    return {"name": as_name(network.name), "directed": True, "nodes": nodes, "links": links}


def _rate_bps(link: SndlibLink, unit_bps: int) -> int | None:
    if link.capacity > 0:
        return to_bps(link.capacity, unit_bps)
    return to_bps(link.modules[0].capacity, unit_bps) if len(link.modules) == 1 else None
