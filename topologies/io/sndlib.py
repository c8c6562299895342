"""Networks of SNDlib as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from dcgym.errors import ConfigError
from dcgym.sndlib import SndlibLink, read_sndlib, to_bps

__all__ = ["sndlib_content"]


def sndlib_content(path: str | Path) -> dict[str, object]:
    """Return the network of a file as plain data, without roles, queues and delays.

    The rate of a link is its pre-installed capacity, or, where nothing is installed, that of its
    only module. Among several modules the plan is to choose: such a link has no rate, and neither
    has one without capacity and modules. The file does not say whether links are directed; where
    each link has an opposite one of the same capacity, both are one link. Demands, coordinates and
    costs are in `read_sndlib`.

    Args:
        path: The file, after which the network is called.

    Returns:
        "name", "nodes" (each with "name") and "links" (each with "a", "b", perhaps "rate_bps").

    Raises:
        ConfigError: The file cannot be read, a link begins and ends at one node, or some links but
            not all have opposite ones.
    """
    network = read_sndlib(path, "topology")
    links: list[dict[str, object]] = []
    for link in _cables(network.links):
        rate_bps = _rate_bps(link, network.unit_bps)
        known = {} if rate_bps is None else {"rate_bps": rate_bps}
        links.append({"a": link.source, "b": link.target, **known})
    nodes = [{"name": node.name} for node in network.nodes]
    return {"name": network.name, "nodes": nodes, "links": links}


def _rate_bps(link: SndlibLink, unit_bps: int) -> int | None:
    if link.capacity > 0:
        return to_bps(link.capacity, unit_bps)
    return to_bps(link.modules[0].capacity, unit_bps) if len(link.modules) == 1 else None


def _cables(links: Sequence[SndlibLink]) -> list[SndlibLink]:
    """Return one link for both directions, where each link has an opposite one."""
    directions: dict[tuple[str, str], list[SndlibLink]] = defaultdict(list)
    for link in links:
        if link.source == link.target:
            raise ConfigError(f"{link.where}, target", link.target, "a node other than the source")
        directions[link.source, link.target].append(link)
    if not any((target, source) in directions for source, target in directions):
        return list(links)
    cables: dict[tuple[str, str], list[SndlibLink]] = {}
    for (source, target), there in directions.items():
        back = directions.get((target, source), [])
        if _capacities(there) != _capacities(back):
            allowed = (
                "for each link an opposite one of the same capacity, or for none: both directions "
                "of a link have one rate"
            )
            raise ConfigError(there[0].where, there[0].name, allowed)
        if (target, source) not in cables:
            cables[source, target] = there
    return [link for parallel in cables.values() for link in parallel]


def _capacities(links: Sequence[SndlibLink]) -> list[tuple[float, list[float]]]:
    return sorted((link.capacity, [one.capacity for one in link.modules]) for link in links)
